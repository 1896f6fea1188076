// RUN: pirkit-opt %s -p 'convert-dtype{to=bfloat16}' | filecheck %s
// RUN: pirkit-opt %s -p 'convert-dtype{to=float32}' | filecheck %s --check-prefix SAME
// RUN: pirkit-opt %s -p 'convert-dtype{to=bfloat16}' --remarks 2>&1 | filecheck %s --check-prefix REMARK
// RUN: not pirkit-opt %s -p 'convert-dtype{to=bfloat}' | filecheck %s --check-prefix ERROR

// Types, constants and casts change; a number that stands for an attribute does not round, and what
// a norm computes in float32 for itself stays float32.
// ERROR:         `bfloat` is no floating element type
// ERROR:         did you mean `bfloat16`?
// SAME-LABEL:    pir.program @parts
// SAME-NOT:      bf16
// REMARK:        missed: convert-dtype: `pd_op.cholesky` does not take bfloat16: float32
// CHECK-LABEL:   pir.program @parts(%x "x" : tensor<2x8xbf16>)
// CHECK-NEXT:      %w = pir.parameter() {{.*}} -> tensor<8xbf16>
// CHECK-NEXT:      %f = pd_op.full() {{.*}}dtype = #pir.dtype<bfloat16>{{.*}} -> tensor<8xbf16>
// CHECK-NEXT:      %a = pd_op.add(%w, %f) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:      %y, %mean, %variance = pd_op.layer_norm(%x, %a) {{.*}} -> (tensor<2x8xbf16>, tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT:      %n = pd_op.full() {{.*}}dtype = #pir.dtype<float32>{{.*}} -> tensor<1xf32>
// CHECK-NEXT:      %s = pd_op.scale(%y, %n) {{.*}} : (tensor<2x8xbf16>, tensor<1xf32>) -> tensor<2x8xbf16>
// CHECK-NEXT:      %i = pd_op.cast(%s) {dtype = #pir.dtype<int64>}
// CHECK-NEXT:      %c = pd_op.cast(%i) {dtype = #pir.dtype<bfloat16>}
// CHECK-NEXT:      pir.shadow_output(%c) {output_name = "y"} : (tensor<2x8xbf16>) -> ()
// CHECK-NEXT:      [[MEAN:%.+]] = pd_op.cast(%mean) {dtype = #pir.dtype<bfloat16>}
// CHECK-NEXT:      pir.shadow_output([[MEAN]]) {output_name = "mean"} : (tensor<2xbf16>) -> ()
pir.program @parts(%x "x" : tensor<2x8xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<8xf32>
  %f = pd_op.full() {shape = array<i64: 8>, value = 0.5 : f64} : () -> tensor<8xf32>
  %a = pd_op.add(%w, %f) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y, %mean, %variance = pd_op.layer_norm(%x, %a) {operandSegmentSizes = array<i32: 1, 1, 0>, epsilon = 1.0e-05 : f32, begin_norm_axis = 1 : i32} : (tensor<2x8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  %n = pd_op.full() {shape = array<i64: 1>, value = 0.1 : f64, dtype = #pir.dtype<float32>, place = #pir.place<cpu:0>} : () -> tensor<1xf32>
  %s = pd_op.scale(%y, %n) {bias = 0.0 : f32, bias_after_scale = true} : (tensor<2x8xf32>, tensor<1xf32>) -> tensor<2x8xf32>
  %i = pd_op.cast(%s) {dtype = #pir.dtype<int64>} : (tensor<2x8xf32>) -> tensor<2x8xi64>
  %c = pd_op.cast(%i) {dtype = #pir.dtype<float32>} : (tensor<2x8xi64>) -> tensor<2x8xf32>
  pir.shadow_output(%c) {output_name = "y"} : (tensor<2x8xf32>) -> ()
  pir.shadow_output(%mean) {output_name = "mean"} : (tensor<2xf32>) -> ()
}

// -----

// An op that does not take the type computes between casts; what is float32 beside it follows.
// CHECK-LABEL:   pir.program @between
// CHECK-NEXT:      [[WIDE:%.+]] = pd_op.cast(%x) {dtype = #pir.dtype<float32>}
// CHECK-NEXT:      %l = pd_op.cholesky([[WIDE]]) {{.*}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:      [[BACK:%.+]] = pd_op.cast(%l) {dtype = #pir.dtype<bfloat16>}
// CHECK-NEXT:      %y = pd_op.tanh([[BACK]]) : (tensor<2x2xbf16>) -> tensor<2x2xbf16>
pir.program @between(%x "x" : tensor<2x2xf32>) {
  %l = pd_op.cholesky(%x) {upper = false} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = pd_op.tanh(%l) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x2xf32>) -> ()
}

// -----

// Regions hand on the new type, and buffers that are written have it; statistics are cast for them.
// CHECK-LABEL:   pir.program @regions
// CHECK:           %r = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x8xbf16>) -> tensor<2x8xbf16> {
// CHECK-NEXT:      ^bb0(%a: tensor<2x8xbf16>):
// CHECK-NEXT:        %b = pd_op.relu(%a) : (tensor<2x8xbf16>) -> tensor<2x8xbf16>
// CHECK:             pir.yield(%e, %b) : (tensor<i1>, tensor<2x8xbf16>) -> ()
// CHECK:           pd_op.batch_norm(
// CHECK:           pd_op.assign_out_({{.*}}) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
pir.program @regions(%c "c" : tensor<i1>, %x "x" : tensor<2x8xf32>, %m "m" : tensor<8xf32>, %v "v" : tensor<8xf32>) {
  %r = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%a : tensor<2x8xf32>):
    %b = pd_op.relu(%a) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %d = pd_op.logical_not(%c) : (tensor<i1>) -> tensor<i1>
    %e = pd_op.logical_and(%c, %d) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    pir.yield(%e, %b) : (tensor<i1>, tensor<2x8xf32>) -> ()
  }
  %y, %1, %2, %3, %4, %5 = pd_op.batch_norm_(%r, %m, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, is_test = false, momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, trainable_statistics = false} : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<0xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x8xf32>) -> ()
}

// -----

// Statistics meet values of the new type in a list, and follow them.
// CHECK-LABEL:   pir.program @meet
// CHECK:           [[MEAN:%.+]] = pd_op.cast(%mean) {dtype = #pir.dtype<bfloat16>}
// CHECK-NEXT:      [[LIST:%.+]] = pir.combine([[MEAN]], %z)
// CHECK-NEXT:      %w = pd_op.concat([[LIST]]) {{.*}} : (!pir.vec<tensor<2xbf16>, tensor<2xbf16>>) -> tensor<4xbf16>
pir.program @meet(%x "x" : tensor<2x8xf32>, %z "z" : tensor<2xf32>) {
  %y, %mean, %variance = pd_op.layer_norm(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, epsilon = 1.0e-05 : f32, begin_norm_axis = 1 : i32} : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  %l = pir.combine(%mean, %z) : (tensor<2xf32>, tensor<2xf32>) -> !pir.vec<tensor<2xf32>, tensor<2xf32>>
  %w = pd_op.concat(%l) {operandSegmentSizes = array<i32: 1, 0>, axis = 0 : i32} : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> tensor<4xf32>
  pir.shadow_output(%w) {output_name = "w"} : (tensor<4xf32>) -> ()
}

// -----

// What is fetched has the type as well.
// CHECK-LABEL:   pir.program @fetched
// CHECK:           %o = pd_op.fetch(%y) {{.*}} : (tensor<2xbf16>) -> tensor<2xbf16>
pir.program @fetched(%x "x" : tensor<2xf32>) {
  %y = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %o = pd_op.fetch(%y) {name = "y", col = 0 : i32} : (tensor<2xf32>) -> tensor<2xf32>
}
