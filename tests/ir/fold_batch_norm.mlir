// RUN: pirkit-opt %s -p 'fold-batch-norm' | filecheck %s

// Batch norm in inference becomes a factor of the filter, and one summand.
// CHECK-LABEL: pir.program @convolution
// CHECK:         [[W:%.*]] = pd_op.multiply(%w, {{.*}}) : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>)
// CHECK:         [[C:%.*]] = pd_op.conv2d(%x, [[W]])
// CHECK:         pd_op.add([[C]], {{.*}}) : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>)
// CHECK-NOT:     pd_op.batch_norm
pir.program @convolution(%x "x" : tensor<1x3x8x8xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<4x3x3x3xf32>
  %m = pir.parameter() {parameter_name = "m"} : () -> tensor<4xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<4xf32>
  %s = pir.parameter() {parameter_name = "s"} : () -> tensor<4xf32>
  %b = pir.parameter() {parameter_name = "b"} : () -> tensor<4xf32>
  %c = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %y, %1, %2, %3, %4, %5 = pd_op.batch_norm(%c, %m, %v, %s, %b) {is_test = true, momentum = 0.9 : f32, epsilon = 0.00001 : f32, data_format = "NCHW", use_global_stats = true, trainable_statistics = false} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<0xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x4x6x6xf32>) -> ()
}

// -----
// A factor of the columns of a product becomes one of its weight.
// CHECK-LABEL: pir.program @product
// CHECK:         [[W:%.*]] = pd_op.multiply(%w, {{.*}}) : (tensor<3x5xf32>, tensor<1x5xf32>)
// CHECK:         [[P:%.*]] = pd_op.matmul(%x, [[W]])
// CHECK-NEXT:    pir.shadow_output([[P]])
pir.program @product(%x "x" : tensor<2x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<3x5xf32>
  %s = pir.parameter() {parameter_name = "s"} : () -> tensor<5xf32>
  %p = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %y = pd_op.multiply(%p, %s) : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x5xf32>) -> ()
}

// -----
// What is used twice, scaled by an input, or scaled along rows stays.
// CHECK-LABEL: pir.program @kept
// CHECK:         pd_op.matmul(%x, %w)
// CHECK-NEXT:    pd_op.multiply({{.*}}, %s)
// CHECK:         pd_op.matmul(%x, %w)
// CHECK-NEXT:    pd_op.multiply({{.*}}, %z)
// CHECK:         pd_op.matmul(%x, %w)
// CHECK-NEXT:    pd_op.multiply({{.*}}, %r)
pir.program @kept(%x "x" : tensor<2x3xf32>, %z "z" : tensor<5xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<3x5xf32>
  %s = pir.parameter() {parameter_name = "s"} : () -> tensor<5xf32>
  %r = pir.parameter() {parameter_name = "r"} : () -> tensor<2x1xf32>
  %p = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %a = pd_op.multiply(%p, %s) : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  pir.shadow_output(%p) {output_name = "p"} : (tensor<2x5xf32>) -> ()
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2x5xf32>) -> ()
  %q = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %b = pd_op.multiply(%q, %z) : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2x5xf32>) -> ()
  %t = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %c = pd_op.multiply(%t, %r) : (tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  pir.shadow_output(%c) {output_name = "c"} : (tensor<2x5xf32>) -> ()
}

// -----
// The product cannot move past the operation that overwrites its operand.
// CHECK-LABEL: pir.program @overwritten
// CHECK:         [[E:%.*]] = pd_op.exp(%x)
// CHECK-NEXT:    pd_op.matmul([[E]], %w)
// CHECK-NEXT:    pd_op.sin_([[E]])
pir.program @overwritten(%x "x" : tensor<2x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<3x5xf32>
  %s = pir.parameter() {parameter_name = "s"} : () -> tensor<5xf32>
  %e = pd_op.exp(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %p = pd_op.matmul(%e, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %o = pd_op.sin_(%e) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = pd_op.multiply(%p, %s) : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x5xf32>) -> ()
  pir.shadow_output(%o) {output_name = "o"} : (tensor<2x3xf32>) -> ()
}

// -----
// A write-back at the end overwrites nothing that is read later.
// CHECK-LABEL: pir.program @written_back
// CHECK:         [[W:%.*]] = pd_op.multiply(%w
// CHECK:         pd_op.matmul(%x, [[W]])
pir.program @written_back(%x "x" : tensor<2x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<3x5xf32>
  %s = pir.parameter() {parameter_name = "s"} : () -> tensor<5xf32>
  %p = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  %y = pd_op.multiply(%p, %s) : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  %z = pd_op.sin(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x5xf32>) -> ()
  %b = pd_op.assign_out_(%z, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
}
