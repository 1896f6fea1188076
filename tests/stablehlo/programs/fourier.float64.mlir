module @jit_fourier attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf64>, %arg1: tensor<2x8xf64>) -> (tensor<4x6xcomplex<f64>> {jax.result_info = "result[0]"}, tensor<2x8xf64> {jax.result_info = "result[1]"}, tensor<2x5xf64> {jax.result_info = "result[2]"}, tensor<4x6xcomplex<f64>> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<5xf64>
    %cst_1 = stablehlo.constant dense<0x7FF0000000000000> : tensor<5xf64>
    %cst_2 = stablehlo.constant dense<(-0.000000e+00,-1.000000e+00)> : tensor<complex<f64>>
    %0 = call @fft(%arg1) : (tensor<2x8xf64>) -> tensor<2x5xcomplex<f64>>
    %1 = stablehlo.iota dim = 0 : tensor<5xi64>
    %2 = stablehlo.convert %1 : (tensor<5xi64>) -> tensor<5xcomplex<f64>>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<complex<f64>>) -> tensor<5xcomplex<f64>>
    %4 = stablehlo.multiply %3, %2 : tensor<5xcomplex<f64>>
    %5 = stablehlo.real %4 : (tensor<5xcomplex<f64>>) -> tensor<5xf64>
    %6 = stablehlo.exponential %5 : tensor<5xf64>
    %7 = stablehlo.compare EQ, %6, %cst_1 : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
    %8 = stablehlo.multiply %5, %cst_0 : tensor<5xf64>
    %9 = stablehlo.exponential %8 : tensor<5xf64>
    %10 = stablehlo.imag %4 : (tensor<5xcomplex<f64>>) -> tensor<5xf64>
    %11 = stablehlo.cosine %10 : tensor<5xf64>
    %12 = stablehlo.multiply %9, %11 : tensor<5xf64>
    %13 = stablehlo.multiply %12, %9 : tensor<5xf64>
    %14 = stablehlo.multiply %6, %11 : tensor<5xf64>
    %15 = stablehlo.select %7, %13, %14 : tensor<5xi1>, tensor<5xf64>
    %16 = stablehlo.compare EQ, %10, %cst : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
    %17 = stablehlo.sine %10 : tensor<5xf64>
    %18 = stablehlo.multiply %9, %17 : tensor<5xf64>
    %19 = stablehlo.multiply %18, %9 : tensor<5xf64>
    %20 = stablehlo.multiply %6, %17 : tensor<5xf64>
    %21 = stablehlo.select %7, %19, %20 : tensor<5xi1>, tensor<5xf64>
    %22 = stablehlo.select %16, %cst, %21 : tensor<5xi1>, tensor<5xf64>
    %23 = stablehlo.complex %15, %22 : tensor<5xcomplex<f64>>
    %24 = stablehlo.convert %23 : tensor<5xcomplex<f64>>
    %25 = stablehlo.broadcast_in_dim %24, dims = [1] : (tensor<5xcomplex<f64>>) -> tensor<1x5xcomplex<f64>>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<1x5xcomplex<f64>>) -> tensor<2x5xcomplex<f64>>
    %27 = stablehlo.multiply %0, %26 : tensor<2x5xcomplex<f64>>
    %28 = call @fft_0(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>>
    %29 = call @fft_1(%27) : (tensor<2x5xcomplex<f64>>) -> tensor<2x8xf64>
    %30 = stablehlo.abs %27 : (tensor<2x5xcomplex<f64>>) -> tensor<2x5xf64>
    %31 = call @fft_2(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>>
    return %28, %29, %30, %31 : tensor<4x6xcomplex<f64>>, tensor<2x8xf64>, tensor<2x5xf64>, tensor<4x6xcomplex<f64>>
  }
  func.func private @fft(%arg0: tensor<2x8xf64>) -> tensor<2x5xcomplex<f64>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [8] : (tensor<2x8xf64>) -> tensor<2x5xcomplex<f64>>
    return %0 : tensor<2x5xcomplex<f64>>
  }
  func.func private @fft_0(%arg0: tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>> {
    %0 = stablehlo.convert %arg0 : (tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>>
    %1 = stablehlo.fft %0, type = FFT, length = [4, 6] : (tensor<4x6xcomplex<f64>>) -> tensor<4x6xcomplex<f64>>
    return %1 : tensor<4x6xcomplex<f64>>
  }
  func.func private @fft_1(%arg0: tensor<2x5xcomplex<f64>>) -> tensor<2x8xf64> {
    %0 = stablehlo.fft %arg0, type = IRFFT, length = [8] : (tensor<2x5xcomplex<f64>>) -> tensor<2x8xf64>
    return %0 : tensor<2x8xf64>
  }
  func.func private @fft_2(%arg0: tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>> {
    %0 = stablehlo.convert %arg0 : (tensor<4x6xf64>) -> tensor<4x6xcomplex<f64>>
    %1 = stablehlo.fft %0, type = IFFT, length = [6] : (tensor<4x6xcomplex<f64>>) -> tensor<4x6xcomplex<f64>>
    return %1 : tensor<4x6xcomplex<f64>>
  }
}
