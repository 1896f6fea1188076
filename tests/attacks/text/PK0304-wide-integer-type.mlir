pir.program @main attributes {a = i9999999999} {
}
