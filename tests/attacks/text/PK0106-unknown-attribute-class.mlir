pir.program @main attributes {a = #pir.nothing<1>} {
}
