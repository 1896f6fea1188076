// RUN: pirkit-opt %s -p 'quantize{min-elements=600},cse' | filecheck %s
// RUN: pirkit-opt %s -p 'quantize{min-elements=600,activations=int8,ranges=w:2.54},cse' | filecheck %s --check-prefix=EXACT
// RUN: pirkit-opt %s -p 'quantize{min-elements=600,weights=bfloat16,keep=t},cse' | filecheck %s --check-prefix=HALF

// Each column of a weight has a scale, each row of a table; two readers share their weights.
// CHECK-LABEL: pir.program @main
// CHECK:         [[A:%.*]] = pd_op.abs(%w)
// CHECK:         [[M:%.*]] = pd_op.max([[A]]) {axis = array<i64: 0>, keepdim = true} {{.*}} -> tensor<1x96xf32>
// CHECK:         [[S:%.*]] = pd_op.divide({{.*}} -> tensor<1x96xf32>
// CHECK:         [[D:%.*]] = pd_op.divide(%w, [[S]])
// CHECK:         [[R:%.*]] = pd_op.round([[D]])
// CHECK:         [[Q:%.*]] = pd_op.cast([[R]]) {{.*}} -> tensor<64x96xi8>
// CHECK:         [[F:%.*]] = pd_op.reshape([[S]]) {{.*}} -> tensor<96xf32>
// CHECK:         %y = pir.quantized_matmul(%x, [[Q]], [[F]]) {columns = 96 : i64} : (tensor<4x64xf32>, tensor<64x96xi8>, tensor<96xf32>) -> tensor<4x96xf32>
// CHECK:         [[T:%.*]] = pd_op.max({{.*}}) {axis = array<i64: 1>, keepdim = true} {{.*}} -> tensor<10x1xf32>
// CHECK:         pd_op.embedding(%i, {{.*}}tensor<10x64xi8>) -> tensor<4x64xi8>
// CHECK:         pd_op.embedding(%i, {{.*}}tensor<10x1xf32>) -> tensor<4x1xf32>
// CHECK:         %e = pd_op.multiply(
// CHECK:         %z = pir.quantized_matmul(%e, [[Q]], [[F]])
// CHECK:         pd_op.matmul(%x, %k)
// CHECK:         pd_op.matmul(%w, %y)

// A range makes one scale for all rows; numbers beyond it are cut.
// EXACT-LABEL: pir.program @main
// EXACT:         [[S:%.*]] = pd_op.full() {shape = array<i64: 1>, value = {{.*}} : f64
// EXACT:         [[D:%.*]] = pd_op.divide(%x, [[S]])
// EXACT:         pd_op.minimum(
// EXACT:         pd_op.maximum(
// EXACT:         [[X:%.*]] = pd_op.cast({{.*}} -> tensor<4x64xi8>
// EXACT:         %y = pir.quantized_matmul([[X]], {{.*}}, [[S]]) {columns = 96 : i64} : (tensor<4x64xi8>, tensor<64x96xi8>, tensor<96xf32>, tensor<1xf32>) -> tensor<4x96xf32>

// HALF-LABEL: pir.program @main
// HALF:         [[Q:%.*]] = pd_op.cast(%w) {{.*}} -> tensor<64x96xbf16>
// HALF:         %y = pir.quantized_matmul(%x, [[Q]]) {columns = 96 : i64} : (tensor<4x64xf32>, tensor<64x96xbf16>) -> tensor<4x96xf32>
// HALF:         %e = pd_op.embedding(%i, %t)
pir.program @main(%x "x" : tensor<4x64xf32>, %i "i" : tensor<4xi64>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<64x96xf32>
  %t = pir.parameter() {parameter_name = "t"} : () -> tensor<10x64xf32>
  %k = pir.parameter() {parameter_name = "k"} : () -> tensor<64x8xf32>
  %y = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %e = pd_op.embedding(%i, %t) {padding_idx = -1 : i64, sparse = false} : (tensor<4xi64>, tensor<10x64xf32>) -> tensor<4x64xf32>
  %z = pd_op.matmul(%e, %w) {transpose_x = false, transpose_y = false} : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %s = pd_op.matmul(%x, %k) {transpose_x = false, transpose_y = false} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %l = pd_op.matmul(%w, %y) {transpose_x = false, transpose_y = true} : (tensor<64x96xf32>, tensor<4x96xf32>) -> tensor<64x4xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<4x96xf32>) -> ()
  pir.shadow_output(%s) {output_name = "s"} : (tensor<4x8xf32>) -> ()
  pir.shadow_output(%l) {output_name = "l"} : (tensor<64x4xf32>) -> ()
}
