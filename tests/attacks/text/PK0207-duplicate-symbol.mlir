pir.program @main {
}
pir.program @main {
}
