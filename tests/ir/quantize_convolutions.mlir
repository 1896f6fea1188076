// RUN: pirkit-opt %s -p 'quantize{min-elements=600,activations=int8,ranges=v:2.54,w:2.55},cse' | filecheck %s --check-prefix=CONV
// RUN: pirkit-opt %s -p 'quantize{min-elements=600,activations=int8,ranges=v:2.54,w:2.55},cse,block-channels{block=8},cse,dce' | filecheck %s --check-prefix=BLOCK

// A convolution is one of bytes; what else reads its image gets the same bytes, scaled. Where there
// are negative numbers, 128 is 0, in the padding too.
// CONV-LABEL: pir.program @image
// CONV:         [[Q:%.*]] = pd_op.cast({{.*}} -> tensor<1x16x4x4xui8>
// CONV:         [[W:%.*]] = pd_op.cast([[Q]])
// CONV:         [[D:%.*]] = pd_op.multiply([[W]], {{.*}} -> tensor<1x16x4x4xf32>
// CONV:         [[C:%.*]] = pir.quantized_conv2d([[Q]], {{.*}} -> tensor<1x16x4x4xf32>
// CONV:         [[E:%.*]] = pd_op.add([[C]], [[D]])
// CONV:         [[P:%.*]] = pd_op.pad({{.*}}) {pad_value = 1.280000e+02 : f64, paddings = array<i32: 0, 0, 0, 0, 1, 1, 1, 1>} : (tensor<1x16x4x4xui8>) -> tensor<1x16x6x6xui8>
// CONV:         pir.quantized_conv2d([[P]], {{.*}}paddings = array<i32: 0, 0>
// BLOCK-LABEL: pir.program @image
// BLOCK:         [[A:%.*]] = pir.nchwc_quantized_conv2d({{.*}}activation = "relu", zeros = array<i32: 0, 0>} : (tensor<1x1x6x6x8xui8>, tensor<2x1x3x3x2x8x4xi8>, {{.*}} -> tensor<1x2x4x4x8xui8>
// BLOCK:         [[B:%.*]] = pir.nchwc_quantized_conv2d([[A]], {{.*}}, [[A]], {{.*}}activation = "identity", zeros = array<i32: 128, 0>} : {{.*}} -> tensor<1x2x4x4x8xui8>
// BLOCK:         [[P:%.*]] = pd_op.pad([[B]]) {{.*}} -> tensor<1x2x6x6x8xui8>
// BLOCK:         pir.nchwc_quantized_conv2d([[P]], {{.*}} -> tensor<1x2x4x4x8xf32>
pir.program @image(%x "x" : tensor<1x8x4x4xf32>) {
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<16x8x3x3xf32>
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<16x16x3x3xf32>
  %a = pd_op.conv2d(%x, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x4x4xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x4x4xf32>
  %r = pd_op.relu(%a) : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %c = pd_op.conv2d(%r, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32>
  %e = pd_op.add(%c, %r) : (tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %f = pd_op.conv2d(%e, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32>
  pir.shadow_output(%f) {output_name = "y"} : (tensor<1x16x4x4xf32>) -> ()
}

// -----
// Bytes of an image would not see what overwrites it.
// CONV-LABEL: pir.program @overwritten
// CONV-NOT:     quantized
// BLOCK-LABEL: pir.program @overwritten
pir.program @overwritten(%x "x" : tensor<2x64xf32>) {
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<64x32xf32>
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<64x32xf32>
  %e = pd_op.exp(%x) : (tensor<2x64xf32>) -> tensor<2x64xf32>
  %1 = pd_op.matmul(%e, %v) {transpose_x = false, transpose_y = false} : (tensor<2x64xf32>, tensor<64x32xf32>) -> tensor<2x32xf32>
  %2 = pd_op.sin_(%e) : (tensor<2x64xf32>) -> tensor<2x64xf32>
  %3 = pd_op.matmul(%e, %w) {transpose_x = false, transpose_y = false} : (tensor<2x64xf32>, tensor<64x32xf32>) -> tensor<2x32xf32>
  pir.shadow_output(%1) {output_name = "a"} : (tensor<2x32xf32>) -> ()
  pir.shadow_output(%3) {output_name = "b"} : (tensor<2x32xf32>) -> ()
}
