// RUN: pirkit-opt %s -p inplace | filecheck %s

// The operand dies, so the result takes its storage. An input keeps its own.
// CHECK-LABEL: pir.program @dies
// CHECK:         [[A:%.*]] = pd_op.exp(%x)
// CHECK-NEXT:    [[B:%.*]] = pd_op.relu_([[A]])
// CHECK-NEXT:    [[C:%.*]] = pd_op.add_([[B]], %x)
// CHECK-NEXT:    pir.shadow_output([[C]])
pir.program @dies(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.relu(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.add(%b, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%c) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// What it refuses: another dtype, sizes that nobody knows, a result that broadcasting makes larger,
// an operand that occurs twice, outputs, parameters, and what is read later, by another name too.
// CHECK-LABEL: pir.program @refused
// CHECK-NOT:     _(
pir.program @refused(%x "x" : tensor<2xf32>, %u "u" : tensor<1x?xf32>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %i = pd_op.cast(%a) {dtype = #pir.dtype<int32>} : (tensor<2xf32>) -> tensor<2xi32>
  %le = pd_op.less_equal(%i, %i) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  %v = pd_op.exp(%u) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  %t = pd_op.relu(%v) : (tensor<1x?xf32>) -> tensor<1x?xf32>
  %s = pd_op.sum(%x) {axis = array<i64: 0>, keepdim = true} : (tensor<2xf32>) -> tensor<1xf32>
  %wide = pd_op.add(%s, %x) : (tensor<1xf32>, tensor<2xf32>) -> tensor<2xf32>
  %twice = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %sum = pd_op.add(%twice, %twice) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %named = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %after = pd_op.relu(%named) : (tensor<2xf32>) -> tensor<2xf32>
  %q = pd_op.relu(%p) : (tensor<2xf32>) -> tensor<2xf32>
  %k = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %view = pd_op.share_data(%k) : (tensor<2xf32>) -> tensor<2xf32>
  %l = pd_op.relu(%k) : (tensor<2xf32>) -> tensor<2xf32>
  %m = pd_op.multiply(%x, %view) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%le) {output_name = "0"} : (tensor<2xi1>) -> ()
  pir.shadow_output(%t) {output_name = "1"} : (tensor<1x?xf32>) -> ()
  pir.shadow_output(%wide) {output_name = "2"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%sum) {output_name = "3"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%named) {output_name = "4"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%after) {output_name = "5"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%q) {output_name = "6"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%l) {output_name = "7"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%m) {output_name = "8"} : (tensor<2xf32>) -> ()
}

// -----
// Sizes that have names are known to agree.
// CHECK-LABEL: pir.program @names
// CHECK:         pd_op.relu_(
pir.program @names(%u "u" : tensor<1x?xf32, #pir.dims<["", "N"]>>) {
  %v = pd_op.exp(%u) : (tensor<1x?xf32, #pir.dims<["", "N"]>>) -> tensor<1x?xf32, #pir.dims<["", "N"]>>
  %t = pd_op.relu(%v) : (tensor<1x?xf32, #pir.dims<["", "N"]>>) -> tensor<1x?xf32, #pir.dims<["", "N"]>>
  pir.shadow_output(%t) {output_name = "y"} : (tensor<1x?xf32, #pir.dims<["", "N"]>>) -> ()
}

// -----
// Regions: what crosses the border of one, in or out, keeps its storage.
// CHECK-LABEL: pir.program @regions
// CHECK-NOT:     relu_(
pir.program @regions(%x "x" : tensor<2xf32>, %c "c" : tensor<1xi1>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.relu(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %r = pd_op.if(%c) : (tensor<1xi1>) -> tensor<2xf32> {
    %i = pd_op.multiply(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%i) : (tensor<2xf32>) -> ()
  } else {
    pir.yield(%b) : (tensor<2xf32>) -> ()
  }
  %t = pd_op.relu(%r) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%t) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A parameter is updated where it is: through a chain, if its old content is not read meanwhile.
// CHECK-LABEL: pir.program @update
// CHECK:         %p = pir.parameter
// CHECK-NEXT:    [[D:%.*]] = pd_op.scale_(%p)
// CHECK-NEXT:    [[N:%.*]] = pd_op.add_([[D]], %x)
// CHECK-NEXT:    pd_op.multiply(%x, [[N]])
// CHECK-NOT:     assign_out_
pir.program @update(%x "x" : tensor<2xf32>) {
  %p = pir.parameter() {parameter_name = "mean"} : () -> tensor<2xf32>
  %d = pd_op.scale(%p) {scale = 0.9 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %n = pd_op.add(%d, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.multiply(%x, %n) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
  %w = pd_op.assign_out_(%n, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
}

// -----
// CHECK-LABEL: pir.program @read_meanwhile
// CHECK-NOT:     scale_(
// CHECK:         pd_op.assign_out_(
pir.program @read_meanwhile(%x "x" : tensor<2xf32>) {
  %p = pir.parameter() {parameter_name = "mean"} : () -> tensor<2xf32>
  %n = pd_op.scale(%p) {scale = 0.9 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.multiply(%x, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
  %w = pd_op.assign_out_(%n, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
}

// -----
// An operation that updates several parameters at once does so in place, or not at all.
// CHECK-LABEL: pir.program @several
// CHECK:         pd_op.batch_norm_(%x, %p, %q
// CHECK-NOT:     assign_out_
pir.program @several(%x "x" : tensor<2x3xf32>) {
  %p = pir.parameter() {parameter_name = "mean"} : () -> tensor<3xf32>
  %q = pir.parameter() {parameter_name = "variance"} : () -> tensor<3xf32>
  %y, %mean, %var, %m, %v, %r = pd_op.batch_norm(%x, %p, %q, none, none) {is_test = false, momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, trainable_statistics = false} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, none, none) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
  %a = pd_op.assign_out_(%mean, %p) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = pd_op.assign_out_(%var, %q) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
}

// -----
// An output shows the last content, so it does not count as a read of the old one.
// CHECK-LABEL: pir.program @shown
// CHECK:         pd_op.add_(%p, %x)
// CHECK-NOT:     assign_out_
pir.program @shown(%x "x" : tensor<2xf32>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %n = pd_op.add(%p, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%p) {output_name = "w_now"} : (tensor<2xf32>) -> ()
  %b = pd_op.assign_out_(%n, %p) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
}
