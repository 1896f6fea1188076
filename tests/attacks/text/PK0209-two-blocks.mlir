pir.program @main {
  %c = pd_op.data() {name = "c", shape = array<i64>, dtype = #pir.dtype<bool>} : () -> tensor<i1>
  pd_op.if(%c) : (tensor<i1>) -> () {
    pir.yield() : () -> ()
  ^bb1:
    pir.yield() : () -> ()
  } else {
    pir.yield() : () -> ()
  }
}
