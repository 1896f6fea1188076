// RUN: pirkit-opt %s -p 'pack-matmuls{panel=24,group=2}' | filecheck %s

// Known matrices become panels, filled up; two readers of one matrix share its panels.
// CHECK-LABEL: pir.program @main
// CHECK:         [[F:%.*]] = pd_op.pad(%w) {{.*}}paddings = array<i32: 0, 0, 0, 16>{{.*}} -> tensor<96x96xf32>
// CHECK:         [[R:%.*]] = pd_op.reshape([[F]]{{.*}} -> tensor<96x4x24xf32>
// CHECK:         [[P:%.*]] = pd_op.transpose([[R]]) {{.*}}perm = array<i32: 1, 0, 2>{{.*}} -> tensor<4x96x24xf32>
// CHECK:         [[Y:%.*]] = pir.packed_matmul(%x, [[P]]) {columns = 80 : i64} : (tensor<2x64x96xf32>, tensor<4x96x24xf32>) -> tensor<2x64x80xf32>
// CHECK:         [[T:%.*]] = pd_op.transpose(%w)
// CHECK:         [[Q:%.*]] = pd_op.transpose({{.*}}) {{.*}} -> tensor<4x80x24xf32>
// CHECK:         pir.packed_matmul([[Y]], [[Q]]) {columns = 96 : i64}
// CHECK-NOT:     pd_op.pad
// CHECK:         pir.packed_matmul(%x, [[P]])
pir.program @main(%x "x" : tensor<2x64x96xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<96x80xf32>
  %y = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x64x96xf32>, tensor<96x80xf32>) -> tensor<2x64x80xf32>
  %z = pd_op.matmul(%y, %w) {transpose_x = false, transpose_y = true} : (tensor<2x64x80xf32>, tensor<96x80xf32>) -> tensor<2x64x96xf32>
  %v = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<2x64x96xf32>, tensor<96x80xf32>) -> tensor<2x64x80xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<2x64x96xf32>) -> ()
  pir.shadow_output(%v) {output_name = "v"} : (tensor<2x64x80xf32>) -> ()
}

// -----
// A small matrix, a matrix that is no parameter, and a transposed left operand stay.
// CHECK-LABEL: pir.program @kept
// CHECK-NOT:     pir.packed_matmul
pir.program @kept(%x "x" : tensor<1x96xf32>, %s "s" : tensor<8x96xf32>, %t "t" : tensor<96x64xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<96x96xf32>
  %u = pir.parameter() {parameter_name = "u"} : () -> tensor<96x80xf32>
  %a = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<1x96xf32>, tensor<96x96xf32>) -> tensor<1x96xf32>
  %b = pd_op.matmul(%s, %u) {transpose_x = false, transpose_y = false} : (tensor<8x96xf32>, tensor<96x80xf32>) -> tensor<8x80xf32>
  %c = pd_op.matmul(%t, %t) {transpose_x = true, transpose_y = false} : (tensor<96x64xf32>, tensor<96x64xf32>) -> tensor<64x64xf32>
  %d = pd_op.matmul(%t, %u) {transpose_x = true, transpose_y = false} : (tensor<96x64xf32>, tensor<96x80xf32>) -> tensor<64x80xf32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<1x96xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<8x80xf32>) -> ()
  pir.shadow_output(%c) {output_name = "c"} : (tensor<64x64xf32>) -> ()
  pir.shadow_output(%d) {output_name = "d"} : (tensor<64x80xf32>) -> ()
}

// -----
// Matrices in a loop are packed in front of it.
// CHECK-LABEL: pir.program @loop
// CHECK:         [[P:%.*]] = pd_op.transpose({{.*}}) {{.*}} -> tensor<6x128x24xf32>
// CHECK:         pd_op.while
// CHECK:           pir.packed_matmul({{%.*}}, [[P]]) {columns = 128 : i64}
pir.program @loop(%x "x" : tensor<2x128xf32>, %c "c" : tensor<i1>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<128x128xf32>
  %y = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x128xf32>) -> tensor<2x128xf32> {
  ^bb0(%h: tensor<2x128xf32>):
    %z = pd_op.matmul(%h, %w) {transpose_x = false, transpose_y = true} : (tensor<2x128xf32>, tensor<128x128xf32>) -> tensor<2x128xf32>
    %m = pd_op.full() {shape = array<i64>, value = 0.0, dtype = #pir.dtype<bool>} : () -> tensor<i1>
    pir.yield(%m, %z) : (tensor<i1>, tensor<2x128xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x128xf32>) -> ()
}

// -----
// Some rows in float32 by a large matrix; integers, with pairs of rows together.
// CHECK-LABEL: pir.program @few
// CHECK:         pir.packed_matmul(%x, {{%.*}}) {columns = 520 : i64} : (tensor<3x512xf32>, tensor<22x512x24xf32>) -> tensor<3x520xf32>
// CHECK:         [[Q:%.*]] = pd_op.transpose({{.*}}) {perm = array<i32: 2, 0, 3, 1>} {{.*}} -> tensor<1x3x24x2xi8>
// CHECK:         pir.quantized_matmul(%i, [[Q]], %s, %r) {columns = 7 : i64}
pir.program @few(%x "x" : tensor<3x512xf32>, %i "i" : tensor<2x5xi8>, %r "r" : tensor<2x1xf32>, %s "s" : tensor<7xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<512x520xf32>
  %q = pir.parameter() {parameter_name = "q"} : () -> tensor<5x7xi8>
  %a = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<3x512xf32>, tensor<512x520xf32>) -> tensor<3x520xf32>
  %b = pir.quantized_matmul(%i, %q, %s, %r) {columns = 7 : i64} : (tensor<2x5xi8>, tensor<5x7xi8>, tensor<7xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<3x520xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2x7xf32>) -> ()
}
