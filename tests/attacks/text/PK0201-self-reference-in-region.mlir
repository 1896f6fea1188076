pir.program @main {
  %c = pd_op.data() {name = "c", shape = array<i64>, dtype = #pir.dtype<bool>} : () -> tensor<i1>
  %2 = pd_op.if(%c) : (tensor<i1>) -> tensor<2xf32> {
    pir.yield(%2) : (tensor<2xf32>) -> ()
  } else {
    pir.yield(%2) : (tensor<2xf32>) -> ()
  }
}
