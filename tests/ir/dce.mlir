// RUN: pirkit-opt %s -p dce | filecheck %s

// Operations without users go, with what only they have used.
// CHECK-LABEL: pir.program @unused
// CHECK-NOT:     pd_op.exp
// CHECK-NOT:     pd_op.sin
// CHECK:         pir.shadow_output
pir.program @unused(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.sin(%a) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%x) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// The interface stays, and so does what draws or prints.
// CHECK-LABEL: pir.program @kept
// CHECK:         pir.parameter
// CHECK:         pd_op.data
// CHECK:         pd_op.bernoulli
// CHECK:         pd_op.print
pir.program @kept {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %x = pd_op.data() {name = "x", shape = array<i64: 2>, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %a = pd_op.bernoulli(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.print(%x) : (tensor<2xf32>) -> tensor<2xf32>
}

// -----
// Writes to parameters and inputs, also through a view, and writes that are read later stay.
// CHECK-LABEL: pir.program @observed
// CHECK:         pd_op.relu_
// CHECK:         pd_op.sin_
// CHECK:         pd_op.exp_
pir.program @observed(%x "x" : tensor<2xf32>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %v = pd_op.share_data(%p) : (tensor<2xf32>) -> tensor<2xf32>
  %a = pd_op.relu_(%v) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.sin_(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.exp_(%t) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%t) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A write that nobody can see goes, with the buffer.
// CHECK-LABEL: pir.program @unobserved
// CHECK-NOT:     pd_op
// CHECK:         pir.shadow_output
pir.program @unobserved(%x "x" : tensor<2xf32>) {
  %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %a = pd_op.exp_(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.relu_(%t) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%x) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// Inside a loop a write is seen by reads above it.
// CHECK-LABEL: pir.program @loop
// CHECK:         pd_op.increment_
pir.program @loop(%c "c" : tensor<i1>, %x "x" : tensor<1xf32>) {
  %t = pd_op.cos(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.while(%c, %x) : (tensor<i1>, tensor<1xf32>) -> tensor<1xf32> {
  ^bb0(%s : tensor<1xf32>):
    %b = pd_op.exp(%t) : (tensor<1xf32>) -> tensor<1xf32>
    %w = pd_op.increment_(%t) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
    pir.yield(%c, %b) : (tensor<i1>, tensor<1xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// Results of a branch that nobody uses are not computed.
// CHECK-LABEL: pir.program @results
// CHECK:         pd_op.if(%{{.*}}) : (tensor<i1>) -> tensor<2xf32>
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.sin
// CHECK:       } else {
// CHECK-NEXT:    pir.yield(%{{[^,]*}}) : (tensor<2xf32>) -> ()
pir.program @results(%c "c" : tensor<i1>, %x "x" : tensor<2xf32>) {
  %a, %b = pd_op.if(%c) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>) {
    %d = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %e = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%d, %e) : (tensor<2xf32>, tensor<2xf32>) -> ()
  } else {
    pir.yield(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }
  pir.shadow_output(%b) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A branch that only writes a parameter stays; one that does nothing goes.
// CHECK-LABEL: pir.program @branches
// CHECK:         pd_op.relu_
// CHECK-NOT:     pd_op.exp
pir.program @branches(%c "c" : tensor<i1>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  pd_op.if(%c) : (tensor<i1>) -> () {
    %d = pd_op.relu_(%p) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield() : () -> ()
  } else {
    %d = pd_op.exp(%p) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield() : () -> ()
  }
}

// -----
// Of a loop stay the variables that its condition or an effect depends on.
// CHECK-LABEL: pir.program @variables
// CHECK:         pd_op.while(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) :
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.sin
// CHECK:         pd_op.add_
pir.program @variables(%n "n" : tensor<i32>, %x "x" : tensor<2xf32>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %i0 = pd_op.full() {shape = array<i64>, value = 0.0 : f64, dtype = #pir.dtype<int32>} : () -> tensor<i32>
  %c0 = pd_op.less_than(%i0, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %i, %a, %b = pd_op.while(%c0, %i0, %x, %x) : (tensor<i1>, tensor<i32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%j : tensor<i32>, %u : tensor<2xf32>, %v : tensor<2xf32>):
    %one = pd_op.full() {shape = array<i64>, value = 1.0 : f64, dtype = #pir.dtype<int32>} : () -> tensor<i32>
    %k = pd_op.add(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %s = pd_op.exp(%u) : (tensor<2xf32>) -> tensor<2xf32>
    %t = pd_op.sin(%v) : (tensor<2xf32>) -> tensor<2xf32>
    %w = pd_op.add_(%p, %v) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %c = pd_op.less_than(%k, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    pir.yield(%c, %k, %s, %t) : (tensor<i1>, tensor<i32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }
}

// -----
// A write is kept that the next iteration reads, though a variable of its loop goes.
// CHECK-LABEL: pir.program @read_in_the_next_iteration
// CHECK:         pd_op.while(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) :
// CHECK:         pd_op.abs
// CHECK-NEXT:    pd_op.relu_
pir.program @read_in_the_next_iteration(%n "n" : tensor<i32>, %x "x" : tensor<2xf32>) {
  %y = pd_op.sin(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %i0 = pd_op.full() {shape = array<i64>, value = 0.0 : f64, dtype = #pir.dtype<int32>} : () -> tensor<i32>
  %c0 = pd_op.less_than(%i0, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %i, %a, %b = pd_op.while(%c0, %i0, %x, %x) : (tensor<i1>, tensor<i32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%j : tensor<i32>, %u : tensor<2xf32>, %v : tensor<2xf32>):
    %one = pd_op.full() {shape = array<i64>, value = 1.0 : f64, dtype = #pir.dtype<int32>} : () -> tensor<i32>
    %k = pd_op.add(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %s = pd_op.abs(%y) : (tensor<2xf32>) -> tensor<2xf32>
    %w = pd_op.relu_(%y) : (tensor<2xf32>) -> tensor<2xf32>
    %c = pd_op.less_than(%k, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    pir.yield(%c, %k, %s, %x) : (tensor<i1>, tensor<i32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xf32>) -> ()
}
