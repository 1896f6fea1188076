// RUN: pirkit-opt %s -p 'infer-meta{bind=x:4x3}' | filecheck %s

// Binding an input makes everything behind it static, through branches.
// CHECK-LABEL: pir.program @static
// CHECK-SAME:    tensor<4x3xf32>
// CHECK-NOT:     ?
pir.program @static(%x "x" : tensor<?x3xf32>, %c "c" : tensor<i1>) {
  %a = pd_op.relu(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = pd_op.if(%c) : (tensor<i1>) -> tensor<?x3xf32> {
    pir.yield(%a) : (tensor<?x3xf32>) -> ()
  } else {
    %b = pd_op.exp(%a) : (tensor<?x3xf32>) -> tensor<?x3xf32>
    pir.yield(%b) : (tensor<?x3xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?x3xf32>) -> ()
}

// -----
// An argument of a loop is as precise as every turn allows.
// CHECK-LABEL: pir.program @loop
// CHECK:         pd_op.while
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<4x3xf32>, %{{.*}}: tensor<?x3xf32>):
pir.program @loop(%x "x" : tensor<?x3xf32>, %c "c" : tensor<i1>, %z "z" : tensor<?x3xf32>) {
  %y, %w = pd_op.while(%c, %x, %x) : (tensor<i1>, tensor<?x3xf32>, tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  ^bb0(%s : tensor<?x3xf32>, %t : tensor<?x3xf32>):
    %a = pd_op.relu(%s) : (tensor<?x3xf32>) -> tensor<?x3xf32>
    pir.yield(%c, %a, %z) : (tensor<i1>, tensor<?x3xf32>, tensor<?x3xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<?x3xf32>) -> ()
  pir.shadow_output(%w) {output_name = "w"} : (tensor<?x3xf32>) -> ()
}

// -----
// The shape of a `pd_op.data` is its attribute too.
// CHECK-LABEL: pir.program @data
// CHECK:         shape = array<i64: 4, 3>
// CHECK-SAME:    tensor<4x3xf32>
pir.program @data {
  %x = pd_op.data() {name = "x", shape = array<i64: -1, 3>, dtype = #pir.dtype<float32>} : () -> tensor<?x3xf32>
  pir.shadow_output(%x) {output_name = "y"} : (tensor<?x3xf32>) -> ()
}
