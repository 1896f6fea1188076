// RUN: pirkit-opt %s -p decompose,verify-primitive | filecheck %s
// RUN: not pirkit-opt %s -p verify-primitive | filecheck %s --check-prefix ERROR

// ERROR: PK0805
// ERROR: `pd_op.softmax` is no primitive

// CHECK-LABEL: pir.program @softmax
// CHECK:         pd_op.max
// CHECK:         pd_op.divide
pir.program @softmax(%x "x" : tensor<?x3xf32>, %c "c" : tensor<1xi1>) {
  %y = pd_op.if(%c) : (tensor<1xi1>) -> tensor<?x3xf32> {
    %s = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<?x3xf32>) -> tensor<?x3xf32>
    pir.yield(%s) : (tensor<?x3xf32>) -> ()
  } else {
    pir.yield(%x) : (tensor<?x3xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?x3xf32>) -> ()
}
