// RUN: pirkit-opt %s -p 'infer-meta{symbols=x:Nx?,y:MxN}' | filecheck %s

// Sums of names follow an operation; a broadcast of two names, and a half, have none.
// CHECK-LABEL: pir.program @sums
// CHECK-SAME:    tensor<?x8xf32, #pir.dims<["N", ""]>>, {{.*}}tensor<?x?xf32, #pir.dims<["M", "N"]>>
// CHECK-NEXT:    pd_op.matmul{{.*}} -> tensor<?x8xf32, #pir.dims<["M", ""]>>
// CHECK-NEXT:    pd_op.flatten{{.*}} -> tensor<?xf32, #pir.dims<["8*N"]>>
// CHECK-NEXT:    pd_op.reshape{{.*}} -> tensor<?x16xf32>
// CHECK-NEXT:    pd_op.add{{.*}} -> tensor<?x8xf32>
pir.program @sums(%x "x" : tensor<?x8xf32>, %y "y" : tensor<?x?xf32>) {
  %a = pd_op.matmul(%y, %x) : (tensor<?x?xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = pd_op.flatten(%x) {start_axis = 0 : i32, stop_axis = 1 : i32} : (tensor<?x8xf32>) -> tensor<?xf32>
  %c = pd_op.reshape(%x) {shape = array<i64: -1, 16>} : (tensor<?x8xf32>) -> tensor<?x16xf32>
  %d = pd_op.add(%a, %x) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
}

// -----
// What both branches yield has a name; a loop keeps the name that every turn keeps.
// CHECK-LABEL: pir.program @regions
// CHECK:         pd_op.if{{.*}} -> tensor<?x3xf32, #pir.dims<["N", ""]>>
// CHECK:         pd_op.while{{.*}} -> (tensor<?x3xf32, #pir.dims<["N", ""]>>, tensor<?x3xf32>)
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<?x3xf32, #pir.dims<["N", ""]>>, %{{.*}}: tensor<?x3xf32>):
// CHECK:         pd_op.concat{{.*}} -> tensor<?x3xf32>
pir.program @regions(%x "x" : tensor<?x3xf32>, %c "c" : tensor<i1>, %y "y" : tensor<?x?xf32>) {
  %z = pd_op.if(%c) : (tensor<i1>) -> tensor<?x3xf32> {
    %a = pd_op.relu(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
    pir.yield(%a) : (tensor<?x3xf32>) -> ()
  } else {
    pir.yield(%x) : (tensor<?x3xf32>) -> ()
  }
  %v, %w = pd_op.while(%c, %z, %z) : (tensor<i1>, tensor<?x3xf32>, tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  ^bb0(%s : tensor<?x3xf32>, %t : tensor<?x3xf32>):
    %l = pir.combine(%s, %t) : (tensor<?x3xf32>, tensor<?x3xf32>) -> !pir.vec<tensor<?x3xf32>, tensor<?x3xf32>>
    %u = pd_op.concat(%l) {axis = 0 : i32} : (!pir.vec<tensor<?x3xf32>, tensor<?x3xf32>>) -> tensor<?x3xf32>
    pir.yield(%c, %s, %u) : (tensor<i1>, tensor<?x3xf32>, tensor<?x3xf32>) -> ()
  }
}
