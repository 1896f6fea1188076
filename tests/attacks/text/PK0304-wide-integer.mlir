pir.program @main attributes {a = 1 : i9999999999} {
}
