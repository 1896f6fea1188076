// RUN: pirkit-opt %s -p constant-fold,dce | filecheck %s

// Sizes of static types are known; one value everywhere is a `full`, integers are a list.
// CHECK-LABEL: pir.program @sizes
// CHECK-DAG:     pd_op.full_int_array() {value = array<i64: 2, 3>
// CHECK-DAG:     pd_op.assign_value() {shape = array<i32: 2>, dtype = #pir.dtype<int32>, values = [2 : i64, 3 : i64]}
// CHECK-DAG:     pd_op.full() {shape = array<i64>, value = 6.000000e+00 : f64, dtype = #pir.dtype<int64>}
pir.program @sizes(%x "x" : tensor<2x3xf32>) {
  %a = pd_op.shape64(%x) : (tensor<2x3xf32>) -> tensor<2xi64>
  %b = pd_op.shape(%x) : (tensor<2x3xf32>) -> tensor<2xi32>
  %c = pd_op.numel(%x) : (tensor<2x3xf32>) -> tensor<i64>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xi64>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xi32>) -> ()
  pir.shadow_output(%c) {output_name = "c"} : (tensor<i64>) -> ()
}

// -----
// Sizes that are not known yet stay.
// CHECK-LABEL: pir.program @open
// CHECK:         pd_op.shape64
pir.program @open(%x "x" : tensor<?x3xf32>) {
  %a = pd_op.shape64(%x) : (tensor<?x3xf32>) -> tensor<2xi64>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xi64>) -> ()
}

// -----
// Arithmetic is exact in the dtype: 0.1 in float32, the sign of zero, NaN.
// CHECK-LABEL: pir.program @arithmetic
// CHECK-DAG:     value = 0.20000000298023224 : f64, dtype = #pir.dtype<float32>
// CHECK-DAG:     value = -0.000000e+00 : f64
// CHECK-DAG:     value = array<i64: 0, 9007199254740993>
pir.program @arithmetic {
  %t = pd_op.full() {shape = array<i64: 2>, value = 0.1 : f64} : () -> tensor<2xf32>
  %a = pd_op.add(%t, %t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %z = pd_op.full() {shape = array<i64: 1>, value = -0.0 : f64} : () -> tensor<1xf32>
  %b = pd_op.relu(%z) : (tensor<1xf32>) -> tensor<1xf32>
  %c = pd_op.multiply(%z, %t) : (tensor<1xf32>, tensor<2xf32>) -> tensor<2xf32>
  %k = pd_op.full_int_array() {value = array<i64: 0, 9007199254740993>, dtype = #pir.dtype<int64>} : () -> tensor<2xi64>
  %d = pd_op.assign(%k) : (tensor<2xi64>) -> tensor<2xi64>
  %e = pd_op.logical_not(%k) : (tensor<2xi64>) -> tensor<2xi1>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%c) {output_name = "c"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%d) {output_name = "d"} : (tensor<2xi64>) -> ()
}

// -----
// What is written is no constant, and what draws is not computed.
// CHECK-LABEL: pir.program @kept
// CHECK:         pd_op.increment_
// CHECK:         pd_op.exp
// CHECK:         pd_op.bernoulli
pir.program @kept {
  %a = pd_op.full() {shape = array<i64: 1>, value = 0.5 : f64} : () -> tensor<1xf32>
  %b = pd_op.full() {shape = array<i64: 1>, value = 0.5 : f64} : () -> tensor<1xf32>
  %w = pd_op.increment_(%a) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.exp(%a) : (tensor<1xf32>) -> tensor<1xf32>
  %p = pd_op.bernoulli(%b) : (tensor<1xf32>) -> tensor<1xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
  pir.shadow_output(%p) {output_name = "p"} : (tensor<1xf32>) -> ()
}

// -----
// Too large to compute here.
// CHECK-LABEL: pir.program @large
// CHECK:         pd_op.exp
pir.program @large {
  %a = pd_op.full() {shape = array<i64: 64, 64>, value = 0.5 : f64} : () -> tensor<64x64xf32>
  %y = pd_op.exp(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<64x64xf32>) -> ()
}

// -----
// Of a small constant, but too large to keep.
// CHECK-LABEL: pir.program @grown
// CHECK:         pd_op.expand
pir.program @grown {
  %t = pd_op.assign_value() {shape = array<i32: 2>, dtype = #pir.dtype<float32>, values = [1.0 : f64, 2.0 : f64]} : () -> tensor<2xf32>
  %e = pd_op.expand(%t) {shape = array<i64: 1000, 2>} : (tensor<2xf32>) -> tensor<1000x2xf32>
  pir.shadow_output(%e) {output_name = "e"} : (tensor<1000x2xf32>) -> ()
}

// -----
// A quotient by zero is an error of the run that computes it.
// CHECK-LABEL: pir.program @by_zero
// CHECK:         pd_op.remainder
pir.program @by_zero(%x "x" : tensor<0x2xf32>) {
  %n = pd_op.numel(%x) : (tensor<0x2xf32>) -> tensor<i64>
  %r = pd_op.remainder(%n, %n) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  pir.shadow_output(%r) {output_name = "r"} : (tensor<i64>) -> ()
}
