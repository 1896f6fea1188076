// RUN: pirkit-opt %s -p 'convert-dtype{to=bfloat16,keep=w}' | filecheck %s --check-prefix KEEP
// RUN: not pirkit-opt %s -p 'convert-dtype{to=bfloat16,keep=v}' | filecheck %s --check-prefix ERROR
// RUN: not pirkit-opt %s -p 'fuse,convert-dtype' | filecheck %s --check-prefix FUSED
// FUSED:         run `convert-dtype` before `fuse`

// What is kept is named by the user; another name is an error.
// ERROR:         the program has no input or parameter `v`
// ERROR:         it has x, w
// KEEP-LABEL:    pir.program @parts(%x "x" : tensor<2x8xbf16>)
// KEEP:            %w = pir.parameter() {{.*}} -> tensor<8xf32>
pir.program @parts(%x "x" : tensor<2x8xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<8xf32>
  %f = pd_op.full() {shape = array<i64: 8>, value = 0.5 : f64} : () -> tensor<8xf32>
  %a = pd_op.add(%w, %f) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y, %mean, %variance = pd_op.layer_norm(%x, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-05 : f32, begin_norm_axis = 1 : i32} : (tensor<2x8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  %n = pd_op.full() {shape = array<i64: 1>, value = 0.1 : f64, dtype = #pir.dtype<float32>, place = #pir.place<cpu:0>} : () -> tensor<1xf32>
  %s = pd_op.scale(%y, %n) {bias = 0.0 : f32, bias_after_scale = true} : (tensor<2x8xf32>, tensor<1xf32>) -> tensor<2x8xf32>
  %i = pd_op.cast(%s) {dtype = #pir.dtype<int64>} : (tensor<2x8xf32>) -> tensor<2x8xi64>
  %c = pd_op.cast(%i) {dtype = #pir.dtype<float32>} : (tensor<2x8xi64>) -> tensor<2x8xf32>
  pir.shadow_output(%c) {output_name = "y"} : (tensor<2x8xf32>) -> ()
  pir.shadow_output(%mean) {output_name = "mean"} : (tensor<2xf32>) -> ()
}
