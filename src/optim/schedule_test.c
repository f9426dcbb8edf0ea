/* Learning rates and clipping, against their definitions and against PyTorch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "optim/optim.h"

static void assert_near(double got, double want) {
  if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want)))) fail_msg("%.17g, not %.17g", got, want);
}

static void constant_is_constant(void **state) {
  const ronde__schedule s = {.kind = RONDE__SCHEDULE_CONSTANT, .lr = 0.3, .steps = 100};
  assert_true(ronde__schedule_lr(&s, 1) == 0.3);
  assert_true(ronde__schedule_lr(&s, 100) == 0.3);
}

static void warm_up_rises_from_its_first_part_to_the_rate(void **state) {
  ronde__schedule s = {.kind = RONDE__SCHEDULE_CONSTANT, .lr = 0.4, .steps = 100, .warmup_steps = 4};
  static const double want[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.4};
  for (int i = 0; i < 6; ++i) assert_near(ronde__schedule_lr(&s, i + 1), want[i]);
  assert_true(ronde__schedule_lr(&s, 4) == 0.4);
  s.warmup_steps = 1;
  assert_true(ronde__schedule_lr(&s, 1) == 0.4);
}

/* A warm-up that is never over: as long as the run, or longer. */
static void warm_up_may_fill_the_run(void **state) {
  ronde__schedule s = {.kind = RONDE__SCHEDULE_COSINE, .lr = 1, .steps = 4, .warmup_steps = 4};
  static const double want[] = {0.25, 0.5, 0.75, 1};
  for (int i = 0; i < 4; ++i) assert_near(ronde__schedule_lr(&s, i + 1), want[i]);
  s.warmup_steps = 8;
  for (int i = 0; i < 4; ++i) assert_near(ronde__schedule_lr(&s, i + 1), want[i] / 2);
}

/* Three steps an epoch, a drop every second epoch: steps 1 to 6, 7 to 12, 13 on. */
static void step_drops_at_whole_epochs(void **state) {
  ronde__schedule s = {
      .kind = RONDE__SCHEDULE_STEP, .lr = 0.8, .gamma = 0.5, .step_epochs = 2, .steps_per_epoch = 3, .steps = 15};
  for (int64_t step = 1; step <= 15; ++step)
    assert_near(ronde__schedule_lr(&s, step), step <= 6 ? 0.8 : step <= 12 ? 0.4 : 0.2);
  s.warmup_steps = 8;
  assert_near(ronde__schedule_lr(&s, 6), 0.8 * 6 / 8);
  assert_near(ronde__schedule_lr(&s, 7), 0.4 * 7 / 8);
  assert_near(ronde__schedule_lr(&s, 8), 0.4);
  assert_near(ronde__schedule_lr(&s, 13), 0.2);
  s.gamma = 0;
  assert_near(ronde__schedule_lr(&s, 12), 0);
}

static void cosine_falls_from_the_rate_towards_zero(void **state) {
  const ronde__schedule s = {.kind = RONDE__SCHEDULE_COSINE, .lr = 2, .steps = 6};
  const double want[] = {2, 1 + sqrt(3) / 2, 1.5, 1, 0.5, 1 - sqrt(3) / 2, 0, 0};
  for (int i = 0; i < 8; ++i) assert_near(ronde__schedule_lr(&s, i + 1), want[i]);
}

static void cosine_starts_after_the_warm_up(void **state) {
  const ronde__schedule s = {.kind = RONDE__SCHEDULE_COSINE, .lr = 2, .steps = 8, .warmup_steps = 2};
  const double want[] = {1, 2, 2, 1 + sqrt(3) / 2, 1.5, 1, 0.5, 1 - sqrt(3) / 2, 0};
  for (int i = 0; i < 9; ++i) assert_near(ronde__schedule_lr(&s, i + 1), want[i]);
}

/* The recurrence that torch.optim.lr_scheduler.CosineAnnealingLR(T_max=n, eta_min=0) steps by after each update. */
static void cosine_is_pytorchs(void **state) {
  const int n = 37;
  const ronde__schedule s = {.kind = RONDE__SCHEDULE_COSINE, .lr = 0.1, .steps = n};
  double lr = 0.1;
  for (int step = 1; step <= n; ++step) {
    assert_near(ronde__schedule_lr(&s, step), lr);
    lr *= (1 + cos(M_PI * step / n)) / (1 + cos(M_PI * (step - 1) / n));
  }
}

/* The recurrence of torch.optim.lr_scheduler.StepLR, stepped once an epoch. */
static void step_is_pytorchs(void **state) {
  const ronde__schedule s = {
      .kind = RONDE__SCHEDULE_STEP, .lr = 0.1, .gamma = 0.7, .step_epochs = 3, .steps_per_epoch = 5, .steps = 100};
  double lr = 0.1;
  for (int epoch = 1; epoch <= 20; ++epoch) {
    for (int i = 0; i < 5; ++i) assert_near(ronde__schedule_lr(&s, (epoch - 1) * 5 + i + 1), lr);
    if (epoch % 3 == 0) lr *= 0.7;
  }
}

/* torch.optim.lr_scheduler.OneCycleLR(max_lr=0.4, total_steps=n, pct_start=rise), PyTorch 2.15; where the rise is
 * shorter than a step it begins on the way down. */
static void one_cycle_is_pytorchs(void **state) {
  static const struct {
    double rise;
    int n;
    double want[10];
  } runs[] = {
      {0.3,
       10,
       {0.016000000000000014, 0.20800000000000002, 0.40000000000000002, 0.38019385280538953, 0.32469826157990522,
        0.24450480877451572, 0.15549679122548429, 0.075303338420094804, 0.019807747194610516, 1.5999999999999999e-06}},
      {0.5,
       7,
       {0.016000000000000014, 0.1486687370800101, 0.36333126291998991, 0.38019385280538953, 0.24450480877451572,
        0.075303338420094804, 1.5999999999999999e-06}},
      {0.1,
       9,
       {0.39984959110248403, 0.38207265990287659, 0.33724857858043644, 0.2720360568187622, 0.19612254915870056,
        0.12078516365598148, 0.057215424232207872, 0.014856746725397349, 1.5999999999999999e-06}}};
  for (size_t r = 0; r < RONDE__COUNT(runs); ++r) {
    const ronde__schedule s = {
        .kind = RONDE__SCHEDULE_ONE_CYCLE, .lr = 0.4, .steps = runs[r].n, .rise = runs[r].rise, .warmup_steps = 3};
    for (int i = 0; i < runs[r].n; ++i) assert_near(ronde__schedule_lr(&s, i + 1), runs[r].want[i]);
  }
}

static void tests_that_bring_nothing_are_counted(void **state) {
  static const struct {
    double value;
    int64_t tests, drops, waits;
  } steps[] = {{0.5, 0, 0, 0}, {0.5, 1, 0, 1}, {0.6, 2, 1, 0}, {0.59, 3, 1, 1}, {0.61, 0, 1, 0},
               {0.1, 1, 1, 1}, {NAN, 2, 2, 0}, {0.7, 3, 2, 1}, {0.75, 0, 2, 0}};
  ronde__plateau p = {.best = -INFINITY};
  for (size_t i = 0; i < RONDE__COUNT(steps); ++i) {
    ronde__plateau_add(&p, steps[i].value, 0.1, 2);
    if (p.tests != steps[i].tests || p.drops != steps[i].drops || p.waits != steps[i].waits)
      fail_msg("after test %d: %d tests, %d drops, %d waits", (int)i + 1, (int)p.tests, (int)p.drops, (int)p.waits);
  }
  assert_true(p.best == 0.75);
  p = (ronde__plateau){.best = -INFINITY};
  for (int i = 0; i < 9; ++i) ronde__plateau_add(&p, -1, 0, 0);
  assert_true(p.tests == 8 && p.drops == 0);
}

static void clip_factor_is_pytorchs(void **state) {
  assert_true(ronde__clip_factor(0, 1) == 1);
  assert_true(ronde__clip_factor(25, 5.1) == 1);
  assert_true(ronde__clip_factor(25, 5) == (float)(5 / (5 + 1e-6)));
  assert_true(ronde__clip_factor(25, 1) == (float)(1 / (5 + 1e-6)));
  assert_true(ronde__clip_factor(1e60, 1) == (float)(1 / 1e30));
  assert_true(ronde__clip_factor(INFINITY, 1) == 0);
  assert_true(isnan(ronde__clip_factor(NAN, 1)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant_is_constant),
      cmocka_unit_test(warm_up_rises_from_its_first_part_to_the_rate),
      cmocka_unit_test(warm_up_may_fill_the_run),
      cmocka_unit_test(step_drops_at_whole_epochs),
      cmocka_unit_test(cosine_falls_from_the_rate_towards_zero),
      cmocka_unit_test(cosine_starts_after_the_warm_up),
      cmocka_unit_test(cosine_is_pytorchs),
      cmocka_unit_test(step_is_pytorchs),
      cmocka_unit_test(one_cycle_is_pytorchs),
      cmocka_unit_test(tests_that_bring_nothing_are_counted),
      cmocka_unit_test(clip_factor_is_pytorchs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
