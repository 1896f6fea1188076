// RUN: pirkit-opt %s -p 'infer-meta{symbols=auto,x:Nx3,y:N,bind=N:4}' | filecheck %s

// The size of a name holds for all inputs that have it; a name of the rest stays.
// CHECK-LABEL: pir.program @main
// CHECK-SAME:    tensor<4x3xf32>, {{.*}}tensor<4xf32>, {{.*}}tensor<?xf32, #pir.dims<["S0"]>>
// CHECK-NEXT:    -> tensor<4x3xf32>
pir.program @main(%x "x" : tensor<?x3xf32>, %y "y" : tensor<?xf32>, %z "z" : tensor<?xf32>) {
  %a = pd_op.relu(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
}
