pir.program @main {
%x = pd_op.data() {name = "x", shape = array<i64: 1,1>, dtype = #pir.dtype<float32>} : () -> tensor<1x1xf32>
%e = pd_op.expand(%x) {shape = array<i64: 34359738368,34359738368>} : (tensor<1x1xf32>) -> tensor<34359738368x34359738368xf32>
%s = pd_op.sum(%e) {axis = array<i64>, keepdim = false} : (tensor<34359738368x34359738368xf32>) -> tensor<f32>
pir.shadow_output(%s) {output_name = "y"} : (tensor<f32>) -> ()
}
