pir.program @main {
  %c = pd_op.data() {name = "c", shape = array<i64>, dtype = #pir.dtype<bool>} : () -> tensor<i1>
  pd_op.if(%c) : (tensor<i1>) -> () {
  ^bb0(%a : tensor<2xf32>):
    pir.yield() : () -> ()
  } else {
    pir.yield() : () -> ()
  }
}
