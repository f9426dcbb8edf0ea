/* Optimizer steps with PyTorch's definitions, in its order of operations. */
#include "kernel/simd.h"

#include <math.h>

void NAME(sgd)(const ronde__sgd_args *args, float *restrict w, const float *restrict g, float *restrict velocity, int64_t n) {
  const float lr = args->lr, momentum = args->momentum, weight_decay = args->weight_decay;
  if (!velocity) {
    for (int64_t i = 0; i < n; i++) w[i] -= lr * (g[i] + weight_decay * w[i]);
  } else if (args->nesterov) {
    for (int64_t i = 0; i < n; i++) {
      float d = g[i] + weight_decay * w[i];
      float v = velocity[i] = momentum * velocity[i] + d;
      w[i] -= lr * (d + momentum * v);
    }
  } else {
    for (int64_t i = 0; i < n; i++) w[i] -= lr * (velocity[i] = momentum * velocity[i] + (g[i] + weight_decay * w[i]));
  }
}

void NAME(adam)(const ronde__adam_args *args, float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
          int64_t n) {
  const ronde__adam_args a = *args;
  const float rest1 = 1.0f - a.beta1, rest2 = 1.0f - a.beta2;
  for (int64_t i = 0; i < n; i++) {
    float x = a.decay * w[i], d = g[i] + a.weight_decay * w[i];
    float mean = m[i] = a.beta1 * m[i] + rest1 * d;
    float square = v[i] = a.beta2 * v[i] + rest2 * (d * d);
    w[i] = x - a.step_size * (mean / (sqrtf(square) * a.inv_sqrt_bias2 + a.eps));
  }
}

void NAME(adagrad)(const ronde__adagrad_args *args, float *restrict w, const float *restrict g, float *restrict sum, int64_t n) {
  const float lr = args->lr, eps = args->eps, weight_decay = args->weight_decay;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] + weight_decay * w[i];
    float s = sum[i] += d * d;
    w[i] -= lr * (d / (sqrtf(s) + eps));
  }
}
