pir.program @main {
  %x = pd_op.data() {name = "x", shape = array<i64: 2>, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %c = pd_op.data() {name = "c", shape = array<i64>, dtype = #pir.dtype<bool>} : () -> tensor<i1>
  %2 = pd_op.if(%c) : (tensor<i1>) -> tensor<3xf32> {
    pir.yield(%x) : (tensor<2xf32>) -> ()
  } else {
    pir.yield(%x) : (tensor<2xf32>) -> ()
  }
}
