#include "plugins/jobs/training/sigma_losses.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/network/throughput.hpp"
#include "kinora/abi/noise.h"

namespace kinora::core {
namespace {

at::Tensor sigmas(const std::vector<double>& x) { return at::tensor(x, at::kDouble); }

TEST(SigmaLosses, PutsEachLevelIntoItsHalfDecade) {
  EXPECT_EQ(SigmaLosses::bucket_of(1e-9), 0u);
  EXPECT_EQ(SigmaLosses::bucket_of(0.011), 0u);
  for (size_t i = 0; i < SigmaLosses::kBuckets; ++i) {
    const double middle = std::pow(10, -1.75 + 0.5 * static_cast<double>(i));
    EXPECT_EQ(SigmaLosses::bucket_of(middle), i);
    EXPECT_LT(SigmaLosses::edges()[i], middle);
    EXPECT_GT(SigmaLosses::edges()[i + 1], middle);
  }
  EXPECT_EQ(SigmaLosses::bucket_of(1), 4u) << "a bucket includes its lower edge";
  EXPECT_EQ(SigmaLosses::bucket_of(1e9), 7u);
  EXPECT_EQ(SigmaLosses::bucket_of(INFINITY), 7u);
}

TEST(SigmaLosses, AddsUpExactlyAndLeavesOutWhatIsNotFinite) {
  SigmaLosses a, b;
  a.add(sigmas({0.5, 2, 0.6}), sigmas({1, 4, 2}), KINORA_MIX_VARIANCE_EXPLODING);
  // 0.375 = 0.6 / 1.6 is the same level in blend units; a video's frames count by their geometric mean.
  b.add(sigmas({0.375, 0.375}), sigmas({8, NAN}), KINORA_MIX_RECTIFIED_FLOW);
  b.add(sigmas({0.2, 1.8}).view({1, 2}), sigmas({16}), KINORA_MIX_VARIANCE_EXPLODING);
  a += b;
  EXPECT_EQ(a.sum, (std::array<double, 8>{0, 0, 0, 27, 4, 0, 0, 0}));
  EXPECT_EQ(a.count, (std::array<double, 8>{0, 0, 0, 4, 1, 0, 0, 0}));
  EXPECT_EQ(a.means().dump(),
            R"({"count":[0.0,0.0,0.0,4.0,1.0,0.0,0.0,0.0],"mean":[null,null,null,6.75,4.0,null,null,null]})");
  EXPECT_EQ(SigmaLosses::from_json(nlohmann::json::parse(a.to_json().dump())).sum, a.sum);
  EXPECT_FALSE(a.empty());
  EXPECT_TRUE(SigmaLosses().empty());
}

TEST(SigmaLosses, AreOfTheLatestSteps) {
  SigmaLosses a;
  for (int step = 0; step < 2000; ++step) {
    SigmaLosses one;
    one.add(sigmas({1}), sigmas({step < 1000 ? 5.0 : 2.0}), KINORA_MIX_VARIANCE_EXPLODING);
    a.fade();
    a += one;
  }
  EXPECT_NEAR(a.means().at("mean")[4].get<double>(), 2, 3 * 5e-5) << "0.99^1000 of 5";
  EXPECT_NEAR(a.count[4], 100, 1e-3);
  EXPECT_EQ(SigmaLosses::range_of(0), "0.01-0.032");
  EXPECT_EQ(SigmaLosses::range_of(7), "32-1e+02");
}

TEST(Throughput, IsWhatItsFormulasSay) {
  nlohmann::json line;
  Throughput t;
  t.add(line, 0.5, 8, 0);
  EXPECT_EQ(line.dump(), R"({"samples_per_second":16.0})");
  t.flops_per_sample = 100, t.peak_flops = 400, t.ranks = 2;
  t.add(line, 0.5, 8, 64);
  EXPECT_EQ(line.at("tokens_per_second"), 128);
  EXPECT_EQ(line.at("flops_per_second"), 1600);
  EXPECT_EQ(line.at("mfu"), 2);  // of 800
  t.is_measured = true;
  t.add(line, 0.5, 8, 64);
  EXPECT_EQ(line.at("mfu"), 1) << "a step that is faster than the measured peak is the peak";
  t.add(line, 1, 8, 64);
  EXPECT_EQ(line.at("mfu"), 0.5);
  EXPECT_EQ(t.peak_flops, 800);
  EXPECT_GT(measured_peak_flops(), 1e8);
}

}  // namespace
}  // namespace kinora::core
