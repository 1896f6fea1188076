// RUN: pirkit-opt %s -p decompose | filecheck %s
// RUN: pirkit-opt %s -p 'decompose{keep=softmax}' | filecheck %s --check-prefix KEEP
// RUN: pirkit-opt %s -p 'decompose{only=softmax}' | filecheck %s --check-prefix ONLY

// Parts say what they come from; an in-place twin, which writes, stays whole.
// CHECK-LABEL: pir.program @parts
// CHECK:         pd_op.max(%x) {{.*}}comp_op_name = "softmax"
// CHECK:         pd_op.sum
// CHECK-NOT:     pd_op.mean
// CHECK:         pd_op.softmax_
// KEEP-LABEL:  pir.program @parts
// KEEP:          pd_op.softmax(%x)
// KEEP-NOT:      pd_op.mean
// ONLY-LABEL:  pir.program @parts
// ONLY-NOT:      pd_op.softmax(
// ONLY:          pd_op.mean
pir.program @parts(%x "x" : tensor<2x3xf32>) {
  %s = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %m = pd_op.mean(%s) {axis = array<i64: 0>, keepdim = false} : (tensor<2x3xf32>) -> tensor<3xf32>
  %t = pd_op.exp(%m) : (tensor<3xf32>) -> tensor<3xf32>
  %w = pd_op.softmax_(%t) {axis = -1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%w) {output_name = "y"} : (tensor<3xf32>) -> ()
}
