pir.program @main {
  %x = pd_op.data() {name = "x", shape = array<i64: 2>, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %1 = "pd_op.rеlu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
}
