pir.program @main attributes {a = "// -----"} {
}
