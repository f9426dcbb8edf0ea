// What a file of weights says of an npy-like array in memory, from C++.
//
//   c++ -std=c++17 predict.cc $(pkg-config --cflags --libs ronde) -o predict_cc
//   ./predict_cc WEIGHTS
//
// Exit code: 0, or that of Ronde's status.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ronde/ronde.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Failure : std::runtime_error {
  explicit Failure(ronde_status status) : std::runtime_error(ronde_status_text(status)), status(status) {}
  ronde_status status;
};

void check(ronde_status status) {
  if (status != RONDE_OK) throw Failure(status);
}

struct Destroy {
  void operator()(ronde_config *config) const { ronde_config_destroy(config); }
  void operator()(ronde_predictor *predictor) const { ronde_predictor_destroy(predictor); }
};

class Predictor {
public:
  explicit Predictor(const std::string &weights) {
    ronde_config *made;
    check(ronde_config_create("predict", &made));
    std::unique_ptr<ronde_config, Destroy> config(made);
    check(ronde_config_set(made, "init", weights.c_str()));
    check(ronde_config_set(made, "threads", "1"));
    ronde_predictor *predictor;
    check(ronde_predictor_create(made, nullptr, &predictor));
    predictor_.reset(predictor);
  }

  size_t inputs() const {
    int64_t dims[RONDE_MAX_RANK], n = 1;
    for (int d = 0, rank = ronde_predictor_shape(predictor_.get(), dims); d < rank; ++d) n *= dims[d];
    return static_cast<size_t>(n);
  }

  std::vector<float> operator()(const std::vector<float> &x) const {
    const size_t n = x.size() / inputs();
    std::vector<float> y(n * static_cast<size_t>(ronde_predictor_outputs(predictor_.get())));
    check(ronde_predictor_run(predictor_.get(), static_cast<int64_t>(n), x.data(), y.data()));
    return y;
  }

private:
  std::unique_ptr<ronde_predictor, Destroy> predictor_;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: predict_cc WEIGHTS\n"), 2;
  try {
    const Predictor predictor(argv[1]);
    const auto y = predictor(std::vector<float>(predictor.inputs(), 0.5f));
    std::printf("of %zu classes, %td\n", y.size(), std::max_element(y.begin(), y.end()) - y.begin());
  } catch (const Failure &failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), ronde_status_exit_code(failure.status);
  }
}
