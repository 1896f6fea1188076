pir.program @main {
  pir.yield() : () -> ()
}
