// RUN: pirkit-opt %s -p decompose | filecheck %s
// RUN: pirkit-opt %s -p 'decompose{keep=softmax}' | filecheck %s --check-prefix KEEP
// RUN: pirkit-opt %s -p 'decompose{only=softmax}' | filecheck %s --check-prefix ONLY
// RUN: pirkit-opt %s -p 'decompose{backward=false}' | filecheck %s --check-prefix FORWARD
// RUN: pirkit-opt %s -p 'decompose{forward=false}' | filecheck %s --check-prefix BACKWARD
// RUN: pirkit-opt %s -p 'decompose{keep=mean}' --remarks 2>&1 | filecheck %s --check-prefix REMARK

// Parts say what they come from; an in-place twin, which writes, is not decomposed.
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

// -----

// Either half may are not decomposed, and what does is told, with the reason.
// REMARK:          analysis: decompose: `pd_op.mean` is not decomposed: option `keep` says so
// REMARK:          missed: decompose: `pd_op.softmax_` is not decomposed: it writes in place, and `functionalize` makes it pure
// REMARK:          missed: decompose: `pd_op.reverse_grad` is not decomposed: sizes or attributes are known only when the program runs
// FORWARD-LABEL:   pir.program @halves
// FORWARD-NOT:       pd_op.silu(
// FORWARD:           pd_op.silu_grad(
// BACKWARD-LABEL:  pir.program @halves
// BACKWARD:          pd_op.silu(
// BACKWARD-NOT:      pd_op.silu_grad(
// BACKWARD:          pd_op.multiply
pir.program @halves(%x "x" : tensor<2xf32>, %axis "axis" : tensor<1xi64>) {
  %s = pd_op.silu(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %g = pd_op.silu_grad(%x, %s, %x) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %r = pd_op.reverse_grad(%g, %axis) : (tensor<2xf32>, tensor<1xi64>) -> tensor<2xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%r) {output_name = "r"} : (tensor<2xf32>) -> ()
}
