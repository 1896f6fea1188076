// RUN: pirkit-opt %s -p inline-vec,dce | filecheck %s

// Elements are used directly, written or not: they are the same storage.
// CHECK-LABEL: pir.program @lists
// CHECK-NOT:     pir.combine
// CHECK-NOT:     pir.split
// CHECK-NOT:     pir.slice
// CHECK:         pd_op.relu_(%x)
// CHECK:         pd_op.add(%y, %x)
pir.program @lists(%x "x" : tensor<2xf32>, %y "y" : tensor<2xf32>) {
  %l = pir.combine(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> !pir.vec<tensor<2xf32>, tensor<2xf32>>
  %a, %b = pir.split(%l) : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> (tensor<2xf32>, tensor<2xf32>)
  %c = pir.slice(%l) {index = 1 : i32} : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %w = pd_op.relu_(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %s = pd_op.add(%c, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<2xf32>) -> ()
}

// -----
// A list that an op takes stays.
// CHECK-LABEL: pir.program @taken
// CHECK:         pir.combine
// CHECK:         pd_op.add_n
pir.program @taken(%x "x" : tensor<2xf32>) {
  %l = pir.combine(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> !pir.vec<tensor<2xf32>, tensor<2xf32>>
  %s = pd_op.add_n(%l) : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<2xf32>) -> ()
}

// -----
// A result that is left out has no element in its place.
// CHECK-LABEL: pir.program @absent
// CHECK-NOT:     pir.split
// CHECK:         pir.shadow_output(%y)
pir.program @absent(%x "x" : tensor<2xf32>, %y "y" : tensor<2xf32>) {
  %l = pir.combine(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> !pir.vec<tensor<2xf32>, tensor<2xf32>>
  %b = pir.split(%l) : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> (none, tensor<2xf32>)
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xf32>) -> ()
}
