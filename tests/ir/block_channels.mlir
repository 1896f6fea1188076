// RUN: pirkit-opt %s -p 'block-channels{block=8},dce' | filecheck %s

// A convolution takes bias, summand and activation along; pooling and concatenation keep blocks.
// CHECK-LABEL: pir.program @chain
// CHECK:         [[B:%.*]] = pd_op.reshape(%b) {shape = array<i64: 16>}
// CHECK:         [[A:%.*]] = pir.nchwc_conv2d(%x, {{%.*}}, [[B]]) {{.*}}activation = "relu"{{.*}} : (tensor<1x3x8x8xf32>, tensor<2x1x3x3x3x8xf32>, tensor<16xf32>) -> tensor<1x2x8x8x8xf32>
// CHECK:         [[R:%.*]] = pir.nchwc_conv2d([[A]], {{%.*}}, [[A]]) {{.*}}activation = "identity"{{.*}} -> tensor<1x2x8x8x8xf32>
// CHECK:         [[Q:%.*]] = pir.nchwc_max_pool2d([[R]]) {kernel_size = array<i32: 2, 2>{{.*}} -> tensor<1x2x4x4x8xf32>
// CHECK:         [[D:%.*]] = pir.nchwc_conv2d([[Q]], {{%.*}}) {{.*}} : (tensor<1x2x4x4x8xf32>, tensor<2x3x3x8xf32>) -> tensor<1x2x4x4x8xf32>
// CHECK:         [[L:%.*]] = pir.combine([[D]], [[Q]])
// CHECK:         [[C:%.*]] = pd_op.concat([[L]])
// CHECK:         [[T:%.*]] = pd_op.transpose([[C]]) {perm = array<i32: 0, 1, 4, 2, 3>}
// CHECK:         [[Y:%.*]] = pd_op.reshape([[T]]) {shape = array<i64: 1, 32, 4, 4>}
// CHECK:         pir.shadow_output([[Y]])
pir.program @chain(%x "x" : tensor<1x3x8x8xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<16x3x3x3xf32>
  %b = pir.parameter() {parameter_name = "b"} : () -> tensor<16x1x1xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<16x16x1x1xf32>
  %d = pir.parameter() {parameter_name = "d"} : () -> tensor<16x1x3x3xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x8x8xf32>
  %2 = pd_op.add(%1, %b) : (tensor<1x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %3 = pd_op.relu(%2) : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %4 = pd_op.conv2d(%3, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %5 = pd_op.add(%3, %4) : (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %6 = pd_op.pool2d(%5) {kernel_size = array<i64: 2, 2>, strides = array<i64: 2, 2>, paddings = array<i64: 0, 0>, ceil_mode = false, exclusive = true, data_format = "NCHW", pooling_type = "max", global_pooling = false, adaptive = false, padding_algorithm = "EXPLICIT"} : (tensor<1x16x8x8xf32>) -> tensor<1x16x4x4xf32>
  %7 = pd_op.depthwise_conv2d(%6, %d) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 16 : i32} : (tensor<1x16x4x4xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x4x4xf32>
  %8 = pir.combine(%7, %6) : (tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>) -> !pir.vec<tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>>
  %9 = pd_op.concat(%8) {axis = 1 : i32} : (!pir.vec<tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>>) -> tensor<1x32x4x4xf32>
  pir.shadow_output(%9) {output_name = "y"} : (tensor<1x32x4x4xf32>) -> ()
}

// -----
// Filters that are inputs, and counts that fill no block, stay as they are.
// CHECK-LABEL: pir.program @kept
// CHECK-NOT:     pir.nchwc_conv2d
// CHECK:         pir.shadow_output
pir.program @kept(%x "x" : tensor<1x8x8x8xf32>, %w "w" : tensor<8x8x1x1xf32>) {
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<5x8x1x1xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x8x8xf32>
  %2 = pd_op.conv2d(%1, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x8x8xf32>, tensor<5x8x1x1xf32>) -> tensor<1x5x8x8xf32>
  pir.shadow_output(%2) {output_name = "y"} : (tensor<1x5x8x8xf32>) -> ()
}

// -----
// Batch norm whose statistics no filter takes is a factor and a summand of blocks.
// CHECK-LABEL: pir.program @norm
// CHECK:         [[A:%.*]] = pir.nchwc_conv2d(%x, {{%.*}})
// CHECK:         [[M:%.*]] = pd_op.multiply([[A]], {{%.*}}) : (tensor<1x1x4x4x8xf32>, tensor<1x1x1x8xf32>)
// CHECK:         [[S:%.*]] = pd_op.add([[M]], {{%.*}})
// CHECK:         [[T:%.*]] = pd_op.transpose([[S]])
// CHECK:         [[Y:%.*]] = pd_op.reshape([[T]])
// CHECK:         pir.shadow_output([[Y]]) {output_name = "y"}
pir.program @norm(%x "x" : tensor<1x3x4x4xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<8x3x1x1xf32>
  %m = pir.parameter() {parameter_name = "m"} : () -> tensor<8xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<8xf32>
  %c = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %y, %1, %2, %3, %4, %5 = pd_op.batch_norm(%c, %m, %v) {is_test = true, momentum = 0.9 : f32, epsilon = 0.00001 : f32, data_format = "NCHW", use_global_stats = true, trainable_statistics = false} : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<0xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x8x4x4xf32>) -> ()
}

// -----
// CHECK-LABEL: pir.program @alone
// CHECK:         pir.nchwc_conv2d(%x, {{%.*}})
pir.program @alone(%x "x" : tensor<1x3x4x4xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<8x3x1x1xf32>
  %c = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  pir.shadow_output(%c) {output_name = "y"} : (tensor<1x8x4x4xf32>) -> ()
}

// -----
// The last block is filled up, and only the channels that exist are multiplied.
// CHECK-LABEL: pir.program @filled
// CHECK:         [[A:%.*]] = pir.nchwc_conv2d(%x, {{%.*}}) {{.*}} : (tensor<1x3x4x4xf32>, tensor<2x1x1x1x3x8xf32>) -> tensor<1x2x4x4x8xf32>
// CHECK:         [[B:%.*]] = pir.nchwc_conv2d([[A]], {{%.*}}) {{.*}}channels = 12 : i64} : (tensor<1x2x4x4x8xf32>, tensor<2x2x1x1x8x8xf32>) -> tensor<1x2x4x4x8xf32>
// CHECK:         [[T:%.*]] = pd_op.transpose([[B]])
// CHECK:         [[R:%.*]] = pd_op.reshape([[T]]) {shape = array<i64: 1, 16, 4, 4>}
// CHECK:         [[Y:%.*]] = pd_op.slice([[R]]) {{.*}} -> tensor<1x11x4x4xf32>
// CHECK:         pir.shadow_output([[Y]])
pir.program @filled(%x "x" : tensor<1x3x4x4xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<12x3x1x1xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<11x12x1x1xf32>
  %c = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x3x4x4xf32>, tensor<12x3x1x1xf32>) -> tensor<1x12x4x4xf32>
  %d = pd_op.conv2d(%c, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x12x4x4xf32>, tensor<11x12x1x1xf32>) -> tensor<1x11x4x4xf32>
  pir.shadow_output(%d) {output_name = "y"} : (tensor<1x11x4x4xf32>) -> ()
}

// -----
// Between plain images a filter of one tap, of a channel, or of many more filters saves less than
// the changes of layout cost; a larger one saves more, and so does one whose result it reads.
// CHECK-LABEL: pir.program @between
// CHECK:         pd_op.matmul({{%.*}} : (tensor<16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
// CHECK-COUNT-2: pd_op.conv2d
// CHECK:         pir.nchwc_conv2d
// CHECK-NOT:     pd_op.conv2d
// CHECK:         pir.shadow_output
pir.program @between(%x "x" : tensor<1x16x4x4xf32>) {
  %u = pir.parameter() {parameter_name = "u"} : () -> tensor<16x16x1x1xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<16x1x3x3xf32>
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<9x16x3x3xf32>
  %k = pir.parameter() {parameter_name = "k"} : () -> tensor<16x16x3x3xf32>
  %1 = pd_op.conv2d(%x, %u) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
  %2 = pd_op.conv2d(%x, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 16 : i32} : (tensor<1x16x4x4xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x4x4xf32>
  %3 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<9x16x3x3xf32>) -> tensor<1x9x4x4xf32>
  %4 = pd_op.conv2d(%x, %k) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32>
  pir.shadow_output(%1) {output_name = "a"} : (tensor<1x16x4x4xf32>) -> ()
  pir.shadow_output(%2) {output_name = "b"} : (tensor<1x16x4x4xf32>) -> ()
  pir.shadow_output(%3) {output_name = "c"} : (tensor<1x9x4x4xf32>) -> ()
  pir.shadow_output(%4) {output_name = "d"} : (tensor<1x16x4x4xf32>) -> ()
}

// -----
// CHECK-LABEL: pir.program @wanted
// CHECK-NOT:     pd_op.conv2d
// CHECK:         pir.shadow_output
pir.program @wanted(%x "x" : tensor<1x16x4x4xf32>) {
  %u = pir.parameter() {parameter_name = "u"} : () -> tensor<16x16x1x1xf32>
  %k = pir.parameter() {parameter_name = "k"} : () -> tensor<16x16x3x3xf32>
  %1 = pd_op.conv2d(%x, %u) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
  %2 = pd_op.sigmoid(%1) : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %3 = pd_op.multiply(%1, %2) : (tensor<1x16x4x4xf32>, tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %4 = pd_op.conv2d(%3, %k) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x4x4xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32>
  pir.shadow_output(%4) {output_name = "y"} : (tensor<1x16x4x4xf32>) -> ()
}

// -----
// Groups of one tap are a matmul each.
// CHECK-LABEL: pir.program @groups
// CHECK:         [[X:%.*]] = pd_op.reshape(%x) {shape = array<i64: 2, 3, 5, 12>}
// CHECK:         [[M:%.*]] = pd_op.matmul({{%.*}}, [[X]]) : (tensor<3x2x5xf32>, tensor<2x3x5x12xf32>) -> tensor<2x3x2x12xf32>
// CHECK:         [[Y:%.*]] = pd_op.reshape([[M]]) {shape = array<i64: 2, 6, 4, 3>}
// CHECK:         pir.shadow_output([[Y]])
pir.program @groups(%x "x" : tensor<2x15x4x3xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6x5x1x1xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 3 : i32} : (tensor<2x15x4x3xf32>, tensor<6x5x1x1xf32>) -> tensor<2x6x4x3xf32>
  pir.shadow_output(%1) {output_name = "y"} : (tensor<2x6x4x3xf32>) -> ()
}

// -----
// A convolution pads itself, also of a signal; the pad of channels stays.
// CHECK-LABEL: pir.program @padded
// CHECK:         [[X:%.*]] = pd_op.transpose
// CHECK:         pir.nchwc_conv2d([[X]], {{%.*}}) {strides = array<i32: 1, 1>, paddings = array<i32: 3, 4, 3, 6>{{.*}} -> tensor<1x1x9x11x8xf32>
// CHECK:         pir.nchwc_conv2d({{%.*}}) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0, 19, 14>{{.*}} : (tensor<1x1x1x4x8xf32>, tensor<1x1x1x31x8x8xf32>) -> tensor<1x1x1x7x8xf32>
// CHECK:         pd_op.pad({{%.*}}) {{.*}}paddings = array<i32: 0, 0, 1, 0, 0, 0, 0, 0>
pir.program @padded(%x "x" : tensor<1x8x8x8xf32>, %s "s" : tensor<1x8x4xf32>, %c "c" : tensor<1x7x4x4xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<8x8x7x7xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<8x8x1x31xf32>
  %p = pd_op.pad(%x) {pad_value = 0.0 : f64, paddings = array<i32: 0, 0, 0, 0, 0, 1, 0, 3>} : (tensor<1x8x8x8xf32>) -> tensor<1x8x9x11xf32>
  %1 = pd_op.conv2d(%p, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 3, 3>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x9x11xf32>, tensor<8x8x7x7xf32>) -> tensor<1x8x9x11xf32>
  %q = pd_op.pad(%s) {pad_value = 0.0 : f64, paddings = array<i32: 0, 0, 0, 0, 5, 0>} : (tensor<1x8x4xf32>) -> tensor<1x8x9xf32>
  %r = pd_op.reshape(%q) {shape = array<i64: 1, 8, 1, 9>} : (tensor<1x8x9xf32>) -> tensor<1x8x1x9xf32>
  %2 = pd_op.conv2d(%r, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 14>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x1x9xf32>, tensor<8x8x1x31xf32>) -> tensor<1x8x1x7xf32>
  %d = pd_op.pad(%c) {pad_value = 0.0 : f64, paddings = array<i32: 0, 0, 1, 0, 0, 0, 0, 0>} : (tensor<1x7x4x4xf32>) -> tensor<1x8x4x4xf32>
  %3 = pd_op.conv2d(%d, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 3, 3>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x8x4x4xf32>, tensor<8x8x7x7xf32>) -> tensor<1x8x4x4xf32>
  pir.shadow_output(%1) {output_name = "y"} : (tensor<1x8x9x11xf32>) -> ()
  pir.shadow_output(%2) {output_name = "z"} : (tensor<1x8x1x7xf32>) -> ()
  pir.shadow_output(%3) {output_name = "t"} : (tensor<1x8x4x4xf32>) -> ()
}

// -----
// Few multiplications of an element stay plain.
// CHECK-LABEL: pir.program @signals
// CHECK-COUNT-2: pd_op.conv2d(%x
// CHECK:         pir.nchwc_conv2d(%x
pir.program @signals(%x "x" : tensor<2x1x1x16xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<24x1x1x4xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<8x1x1x5xf32>
  %u = pir.parameter() {parameter_name = "u"} : () -> tensor<8x1x1x121xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 2>, paddings = array<i32: 0, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<2x1x1x16xf32>, tensor<24x1x1x4xf32>) -> tensor<2x24x1x8xf32>
  %2 = pd_op.conv2d(%x, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 2>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<2x1x1x16xf32>, tensor<8x1x1x5xf32>) -> tensor<2x8x1x16xf32>
  %3 = pd_op.conv2d(%x, %u) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 60>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<2x1x1x16xf32>, tensor<8x1x1x121xf32>) -> tensor<2x8x1x16xf32>
  pir.shadow_output(%1) {output_name = "a"} : (tensor<2x24x1x8xf32>) -> ()
  pir.shadow_output(%2) {output_name = "b"} : (tensor<2x8x1x16xf32>) -> ()
  pir.shadow_output(%3) {output_name = "c"} : (tensor<2x8x1x16xf32>) -> ()
}

// -----
// Blocks of an image would not see what overwrites it.
// CHECK-LABEL: pir.program @overwritten
// CHECK:         [[E:%.*]] = pd_op.exp(%x)
// CHECK-NEXT:    pd_op.conv2d([[E]], %w)
// CHECK-NEXT:    pd_op.sin_([[E]])
// CHECK-NEXT:    pd_op.conv2d([[E]], %w)
pir.program @overwritten(%x "x" : tensor<1x16x8x8xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<16x16x3x3xf32>
  %e = pd_op.exp(%x) : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %1 = pd_op.conv2d(%e, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %2 = pd_op.sin_(%e) : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %3 = pd_op.conv2d(%e, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  pir.shadow_output(%1) {output_name = "a"} : (tensor<1x16x8x8xf32>) -> ()
  pir.shadow_output(%3) {output_name = "b"} : (tensor<1x16x8x8xf32>) -> ()
}

// -----
// A 3x3 convolution without strides is computed in Winograd's domain, its filter at 36 points; with strides, or
// few filters, it is direct.
// CHECK-LABEL: pir.program @winograd
// CHECK:         [[T:%.*]] = pd_op.transpose({{%.*}}) {perm = array<i32: 4, 0, 2, 3, 1>}
// CHECK:         [[R:%.*]] = pd_op.reshape([[T]]) {shape = array<i64: 9, -1>}
// CHECK:         [[F:%.*]] = pd_op.assign_value() {shape = array<i32: 36, 9>
// CHECK:         [[M:%.*]] = pd_op.matmul([[F]], [[R]])
// CHECK:         [[P:%.*]] = pd_op.reshape([[M]]) {shape = array<i64: 36, 4, 4, 8, 8>}
// CHECK:         [[A:%.*]] = pir.nchwc_winograd_conv2d({{%.*}}, [[P]]) {kernel_size = array<i32: 3, 3>, tile = array<i32: 4, 4>, paddings = array<i32: 1, 1>, activation = "relu"{{.*}} : (tensor<1x4x16x16x8xf32>, tensor<36x4x4x8x8xf32>) -> tensor<1x4x16x16x8xf32>
// CHECK:         [[B:%.*]] = pir.nchwc_conv2d([[A]], {{.*}}strides = array<i32: 2, 2>{{.*}} -> tensor<1x4x8x8x8xf32>
// CHECK:         pir.nchwc_conv2d([[B]], {{.*}} -> tensor<1x1x6x6x8xf32>
pir.program @winograd(%x "x" : tensor<1x32x16x16xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<32x32x3x3xf32>
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<8x32x3x3xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x32x16x16xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x16x16xf32>
  %2 = pd_op.relu(%1) : (tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32>
  %3 = pd_op.conv2d(%2, %w) {strides = array<i32: 2, 2>, paddings = array<i32: 1, 1>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x32x16x16xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  %4 = pd_op.conv2d(%3, %v) {strides = array<i32: 1, 1>, paddings = array<i32: 0, 0>, dilations = array<i32: 1, 1>, groups = 1 : i32} : (tensor<1x32x8x8xf32>, tensor<8x32x3x3xf32>) -> tensor<1x8x6x6xf32>
  pir.shadow_output(%4) {output_name = "y"} : (tensor<1x8x6x6xf32>) -> ()
}

// -----
// Dilations divide an image into smaller ones, whose results are joined.
// CHECK-LABEL: pir.program @dilated
// CHECK:         [[P:%.*]] = pd_op.pad({{%.*}}) {{.*}}paddings = array<i32: 0, 0, 0, 0, 2, 2, 2, 3, 0, 0>
// CHECK:         [[S:%.*]] = pd_op.reshape([[P]]) {shape = array<i64: 1, 8, 10, 2, 10, 2, 8>}
// CHECK:         [[T:%.*]] = pd_op.transpose([[S]]) {perm = array<i32: 0, 3, 5, 1, 2, 4, 6>}
// CHECK:         [[I:%.*]] = pd_op.reshape([[T]]) {shape = array<i64: 4, 8, 10, 10, 8>}
// CHECK:         [[A:%.*]] = pir.nchwc_winograd_conv2d([[I]], {{.*}}paddings = array<i32: 0, 0>{{.*}} -> tensor<4x8x8x8x8xf32>
// CHECK:         [[R:%.*]] = pd_op.reshape([[A]]) {shape = array<i64: 1, 2, 2, 8, 8, 8, 8>}
// CHECK:         [[J:%.*]] = pd_op.transpose([[R]]) {perm = array<i32: 0, 3, 4, 1, 5, 2, 6>}
// CHECK:         [[W:%.*]] = pd_op.reshape([[J]]) {shape = array<i64: 1, 8, 16, 16, 8>}
// CHECK:         pd_op.slice([[W]]) {{.*}}ends = array<i64: 16, 15>
pir.program @dilated(%x "x" : tensor<1x64x16x15xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<64x64x3x3xf32>
  %1 = pd_op.conv2d(%x, %w) {strides = array<i32: 1, 1>, paddings = array<i32: 2, 2>, dilations = array<i32: 2, 2>, groups = 1 : i32} : (tensor<1x64x16x15xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x16x15xf32>
  pir.shadow_output(%1) {output_name = "y"} : (tensor<1x64x16x15xf32>) -> ()
}
