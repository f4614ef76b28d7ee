// A score in C++, see abi/score.h. MeanScore is the usual one: the mean of one number per sample.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "kinora/abi/score.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A subclass S has: struct Options; static void describe(Describe<Options>&); explicit S(const Options&). If each
// sample has a number alone, S also has
//   T each(const Run&, const Named<T>& in);  // [B], fewer numbers where samples have none; the statistics stay
template <class T>
class Score {
 public:
  static constexpr const char* kind = "score";
  static constexpr const char* interface_id = KINORA_INTERFACE_SCORE;
  virtual ~Score() = default;
  virtual void update(const Run&, const Named<T>& in) = 0;
  // All samples so far, as numbers; and those of another instance, which follow this one's.
  virtual std::vector<double> state() const = 0;
  virtual void merge(std::vector<double> state) = 0;
  // The manifest's outputs, in its order. Throws Error(KINORA_ERROR_UNSUPPORTED) if the samples define none.
  virtual std::vector<double> compute() const = 0;

  template <class S>
  static const void* api() {
    static const kinora_score table{
        sizeof(kinora_score),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Score* made = nullptr;
          guard([&] { made = new S(described<S>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, const kinora_run* run, const kinora_named* in, uint64_t n_in) {
          return guard([&] { of(self)->update(Run(run), Named<T>(in, n_in)); });
        },
        [](void* self, kinora_tensor* out) {
          return guard([&] { *out = tensor(of(self)->state()).release(); });
        },
        [](void* self, kinora_tensor state) { return guard([&] { merge_state(of(self), state); }); },
        [](void* self, double* out, uint64_t n_out) { return guard([&] { fill(of(self), out, n_out); }); },
        numbers_of_each<S>()};
    return &table;
  }

 protected:
  static std::vector<double> numbers_of(const T& each) {
    const Tensor numbers =
        op("aten::to", "device", {Tensor::borrow(handle(each)), kCpu, KINORA_DTYPE_FLOAT64}).contiguous();
    if (numbers.dim() != 1) throw Error(KINORA_ERROR_FAILED, "each() must return one number per sample, [B]");
    return {numbers.data<double>(), numbers.data<double>() + numbers.numel()};
  }

 private:
  static constexpr int kCpu = -1;  // a device argument of kinora_value
  // Null for an S without each().
  template <class S>
  static constexpr decltype(kinora_score::each) numbers_of_each() {
    if constexpr (requires(S & s, const Run& run, const Named<T>& in) { s.each(run, in); })
      return [](void* self, const kinora_run* run, const kinora_named* in, uint64_t n_in, double* out,
                uint64_t n_samples) {
        return guard([&] {
          const auto made = numbers_of(static_cast<S*>(of(self))->each(Run(run), Named<T>(in, n_in)));
          if (made.size() != n_samples)
            throw Error(KINORA_ERROR_UNSUPPORTED, std::to_string(made.size()) + " of " +
                                                      std::to_string(n_samples) +
                                                      " samples have a number of their own");
          std::copy(made.begin(), made.end(), out);
        });
      };
    else
      return nullptr;
  }
  static void merge_state(Score* self, kinora_tensor given) {
    const Tensor state = Tensor::borrow(given);
    if (state.dtype() != KINORA_DTYPE_FLOAT64 || state.dim() != 1)
      throw Error(KINORA_ERROR_INVALID, "the state of a score must be float64 [S]");
    const Tensor dense = state.contiguous();
    const auto* numbers = dense.data<double>();
    self->merge({numbers, numbers + dense.numel()});
  }
  static void fill(const Score* self, double* out, uint64_t n_out) {
    const std::vector<double> made = self->compute();
    if (made.size() != n_out)
      throw Error(KINORA_ERROR_FAILED, "compute() returned " + std::to_string(made.size()) +
                                           " numbers; the manifest has " + std::to_string(n_out) +
                                           " outputs");
    std::copy(made.begin(), made.end(), out);
  }
  static Score* of(void* self) { return static_cast<Score*>(self); }
};

// The mean of one number per sample, the manifest's only output. Its state is the numbers themselves, so the
// mean does not depend on how consecutive samples are divided among ranks, to the last bit.
template <class T>
class MeanScore : public Score<T> {
 public:
  // One number for each sample, [B]; a sample may be left out of the mean.
  virtual T each(const Run&, const Named<T>& in) = 0;

  void update(const Run& run, const Named<T>& in) final { merge(this->numbers_of(each(run, in))); }
  std::vector<double> state() const final { return numbers_; }
  void merge(std::vector<double> state) final { numbers_.insert(numbers_.end(), state.begin(), state.end()); }
  std::vector<double> compute() const final {
    if (numbers_.empty()) throw Error(KINORA_ERROR_UNSUPPORTED, "no sample has this score");
    double mean = 0;
    for (const double x : numbers_) mean += x / static_cast<double>(numbers_.size());
    return {mean};
  }

 private:
  std::vector<double> numbers_;
};

}  // namespace kinora

KINORA_SDK_END
