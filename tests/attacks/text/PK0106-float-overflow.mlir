pir.program @main attributes {a = 1.0e999999} {
}
