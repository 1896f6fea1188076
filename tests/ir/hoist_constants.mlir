// RUN: pirkit-opt %s -p 'hoist-constants' | filecheck %s

// What parameters determine is a parameter; a program of its own computes it.
// CHECK-LABEL: pir.program @main
// CHECK-NEXT:    [[T:%.*]] = pir.parameter() {parameter_name = "constant_1"} : () -> tensor<3x2xf32>
// CHECK-NEXT:    pd_op.matmul(%x, [[T]])
// CHECK:         pd_op.data
// CHECK-LABEL: pir.program @main_constants
// CHECK:         pir.parameter() {parameter_name = "w"}
// CHECK:         pd_op.exp
// CHECK:         pd_op.transpose
// CHECK:         pir.shadow_output({{.*}}) {output_name = "constant_1"}
pir.program @main(%x "x" : tensor<4x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2x3xf32>
  %e = pd_op.exp(%w) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %t = pd_op.transpose(%e) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = pd_op.matmul(%x, %t) {transpose_x = false, transpose_y = false} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x2xf32>) -> ()
  %k = pir.parameter() {parameter_name = "constant_0"} : () -> tensor<2xf32>
  %d = pd_op.data() {name = "d", shape = array<i64: 2>, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %z = pd_op.add(%k, %d) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<2xf32>) -> ()
}

// -----
// A parameter that the program writes is no constant, and a broadcast stays small.
// CHECK-LABEL: pir.program @kept
// CHECK:         pd_op.exp
// CHECK:         pd_op.expand
// CHECK-NOT:     pir.program
pir.program @kept(%x "x" : tensor<2xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %e = pd_op.exp(%w) : (tensor<2xf32>) -> tensor<2xf32>
  %n = pd_op.add(%e, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.set_parameter(%n) {parameter_name = "w"} : (tensor<2xf32>) -> ()
  %b = pir.parameter() {parameter_name = "b"} : () -> tensor<1x2xf32>
  %l = pd_op.expand(%b) {shape = array<i64: 65536, 2>} : (tensor<1x2xf32>) -> tensor<65536x2xf32>
  %s = pd_op.add(%l, %x) : (tensor<65536x2xf32>, tensor<2xf32>) -> tensor<65536x2xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<65536x2xf32>) -> ()
}

// -----
// A program that has constants already is left alone.
// CHECK-LABEL: pir.program @again
// CHECK:         pd_op.sin(%w)
// CHECK-LABEL: pir.program @again_constants
module {
  pir.program @again(%x "x" : tensor<2xf32>) {
    %w = pir.parameter() {parameter_name = "constant_0"} : () -> tensor<2xf32>
    %s = pd_op.sin(%w) : (tensor<2xf32>) -> tensor<2xf32>
    %y = pd_op.add(%s, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
  }
  pir.program @again_constants {
    %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
    pir.shadow_output(%w) {output_name = "constant_0"} : (tensor<2xf32>) -> ()
  }
}
