// Calls that several videos make together, by a function instead of a model.
#include "plugins/jobs/inference/call_batch.hpp"

#include <memory>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core::inference {
namespace call_batch_test {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// latent [B, 4] + the sum of each text [B, L, 3], times the number of the call and one.
at::Tensor result(uint32_t call, const NamedTensors& in) {
  return (in.at("latent") + in.at("text").sum({1, 2}).unsqueeze(1)) * (call + 1.0);
}

// Videos on threads of their own. calls: how often each calls the function.
class Batch {
 public:
  void add(NamedTensors in, uint32_t calls) {
    inputs_.push_back(std::move(in));
    calls_.push_back(calls);
  }
  void run() {
    CallBatch batch(turns_, inputs_.size());
    results.resize(inputs_.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < inputs_.size(); ++i)
        threads.emplace_back([&, i] {
          BatchedVideo video(batch);
          for (uint32_t call = 0; call < calls_[i]; ++call) {
            const std::scoped_lock turn(turns_);
            results[i].push_back(one(video, call, inputs_[i]));
          }
        });
    }
    shared = batch.shared();
  }
  // The results are those of the function alone.
  void expect_results() const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (uint32_t call = 0; call < calls_[i]; ++call)
        EXPECT_TRUE(at::allclose(results[i].at(call), result(call, inputs_[i]), 0, 1e-12))
            << i << " " << call;
  }

  std::vector<std::vector<at::Tensor>> results;  // of each video; undefined: the call has failed
  std::vector<int64_t> sizes{};                  // of the batches of all calls
  int64_t shared = 0;

 private:
  at::Tensor one(BatchedVideo& video, uint32_t call, const NamedTensors& in) {
    try {
      return video(call, in, [this](uint32_t number, const NamedTensors& all) {
        sizes.push_back(all.at("latent").size(0));
        if (all.at("latent").max().item<double>() > 100) throw Error(KINORA_ERROR_FAILED, "too large");
        return result(number, all);
      });
    } catch (const Error&) {
      return {};
    }
  }

  Turns turns_;
  std::vector<NamedTensors> inputs_;
  std::vector<uint32_t> calls_;
};

NamedTensors input(int64_t samples, int64_t words, bool has_mask = true) {
  NamedTensors out{{"latent", at::rand({samples, 4}, at::kDouble)},
                   {"text", at::rand({samples, words, 3}, at::kDouble)}};
  if (has_mask) out["text_mask"] = at::ones({samples, words}, at::kBool);
  return out;
}

TEST(CallBatch, OneCallServesVideosOfEqualShape) {
  Batch batch;
  batch.add(input(1, 2), 3);
  batch.add(input(2, 5), 3);
  batch.add(input(1, 3), 3);
  batch.run();
  batch.expect_results();
  EXPECT_THAT(batch.sizes, ElementsAre(4, 4, 4));
  EXPECT_EQ(batch.shared, 3);
}

TEST(CallBatch, AnotherShapeIsAnotherCall) {
  NamedTensors longer = input(1, 2);
  longer["latent"] = at::rand({1, 8}, at::kDouble);
  Batch batch;
  for (const auto& in : {input(1, 2), longer, input(1, 4)}) batch.add(in, 1);
  batch.run();
  batch.expect_results();
  EXPECT_THAT(batch.sizes, UnorderedElementsAre(2, 1));
  Batch unmasked;
  for (const int64_t words : {2, 2, 3}) unmasked.add(input(1, words, false), 1);
  unmasked.run();
  unmasked.expect_results();
  EXPECT_THAT(unmasked.sizes, UnorderedElementsAre(2, 1)) << "zeros behind a text would be words";
}

TEST(CallBatch, NoOneWaitsForAVideoThatHasLeft) {
  Batch batch;
  batch.add(input(1, 2), 3);
  batch.add(input(1, 2), 1);
  batch.add(input(1, 2), 0);
  batch.run();
  batch.expect_results();
  EXPECT_THAT(batch.sizes, ElementsAre(2, 1, 1));
  EXPECT_EQ(batch.shared, 1);
}

TEST(CallBatch, AnErrorIsOfItsVideoAlone) {
  NamedTensors large = input(1, 2);
  large["latent"] = large["latent"] + 1000;
  Batch batch;
  for (const auto& in : {input(1, 2), large, input(1, 3)}) batch.add(in, 2);
  batch.run();
  for (const size_t i : {0, 2})
    for (const at::Tensor& one : batch.results[i]) EXPECT_TRUE(one.defined()) << i;
  for (const at::Tensor& one : batch.results[1]) EXPECT_FALSE(one.defined());
  EXPECT_THAT(batch.sizes, testing::SizeIs(7)) << "of three, and then six of one";
}

}  // namespace call_batch_test
}  // namespace kinora::core::inference
