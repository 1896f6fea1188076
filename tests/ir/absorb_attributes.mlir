// RUN: pirkit-opt %s -p absorb-attributes,dce | filecheck %s

// Constant operands become attributes, lists of constants too.
// CHECK-LABEL: pir.program @constants
// CHECK-NOT:     pd_op.full
// CHECK-DAG:     pd_op.scale(%x) {bias = 0.000000e+00 : f32, scale = 2.000000e+00 : f64}
// CHECK-DAG:     pd_op.sum(%x) {keepdim = false, axis = array<i64: 0, 1>}
pir.program @constants(%x "x" : tensor<2x3xf32>) {
  %k = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64} : () -> tensor<1xf32>
  %a = pd_op.scale(%x, %k) {bias = 0.0 : f32} : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %i = pd_op.full_int_array() {value = array<i64: 0, 1>, dtype = #pir.dtype<int64>} : () -> tensor<2xi64>
  %b = pd_op.sum(%x, %i) {keepdim = false} : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<f32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2x3xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<f32>) -> ()
}

// -----
// A number that is computed, or written after it was made, stays an operand.
// CHECK-LABEL: pir.program @computed
// CHECK:         pd_op.scale(%x, %s)
// CHECK:         pd_op.scale(%a, %k)
pir.program @computed(%x "x" : tensor<2xf32>, %s "s" : tensor<1xf32>) {
  %k = pd_op.full() {shape = array<i64: 1>, value = 2.0 : f64} : () -> tensor<1xf32>
  %w = pd_op.increment_(%k) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %a = pd_op.scale(%x, %s) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %y = pd_op.scale(%a, %k) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}
