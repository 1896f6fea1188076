// RUN: pirkit-opt %s -p 'convolve-transposed' | filecheck %s

// The window of four becomes two taps and two results along each axis; the filter is rearranged once.
// CHECK-LABEL: pir.program @large_filter
// CHECK:         [[P:%.*]] = pd_op.reshape(%w) {{.*}} -> tensor<64x32x2x2x2x2xf32>
// CHECK:         [[F:%.*]] = pd_op.flip([[P]])
// CHECK:         [[T:%.*]] = pd_op.transpose([[F]]) {{.*}} -> tensor<32x2x2x64x2x2xf32>
// CHECK:         [[W:%.*]] = pd_op.reshape([[T]]) {{.*}} -> tensor<128x64x2x2xf32>
// CHECK:         [[C:%.*]] = pd_op.conv2d(%x, [[W]]) {{.*}} -> tensor<1x128x4x4xf32>
// CHECK:         pd_op.slice({{.*}}) {{.*}} -> tensor<1x32x6x6xf32>
// CHECK-NOT:     pd_op.conv2d_transpose
pir.program @large_filter(%x "x" : tensor<1x64x3x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<64x32x4x4xf32>
  %y = pd_op.conv2d_transpose(%x, %w) {strides = array<i32: 2, 2>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x64x3x3xf32>, tensor<64x32x4x4xf32>) -> tensor<1x32x6x6xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x32x6x6xf32>) -> ()
}

// -----
// A filter that is an input may change between calls.
// CHECK-LABEL: pir.program @input
// CHECK:         pd_op.conv2d_transpose(%x, %w)
pir.program @input(%x "x" : tensor<1x64x3x3xf32>, %w "w" : tensor<64x32x4x4xf32>) {
  %y = pd_op.conv2d_transpose(%x, %w) {strides = array<i32: 2, 2>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x64x3x3xf32>, tensor<64x32x4x4xf32>) -> tensor<1x32x6x6xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x32x6x6xf32>) -> ()
}
