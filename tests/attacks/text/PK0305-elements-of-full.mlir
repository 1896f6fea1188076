pir.program @main {
%a = pd_op.full() {shape = array<i64: 4294967296, 4294967296>, value = 1.0 : f64, dtype = #pir.dtype<float32>} : () -> tensor<4294967296x4294967296xf32>
%s = pd_op.sum(%a) {axis = array<i64>, keepdim = false} : (tensor<4294967296x4294967296xf32>) -> tensor<f32>
pir.shadow_output(%s) {output_name = "y"} : (tensor<f32>) -> ()
}
