pir.program @main {
  %0 = pd_op.data() {name = "x", shape = array<i64: 0, 3>, dtype = #pir.dtype<float32>} : () -> tensor<0x3xf32>
  %1 = pd_op.relu(%0) : (tensor<0x3xf32>) -> tensor<0x3xf32>
}
