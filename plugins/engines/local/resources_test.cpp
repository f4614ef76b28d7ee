// Limits on a run's resources: memory, cores, devices, hardware coders.
#include <gmock/gmock.h>

#include "plugins/engines/local/engine_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora::local {
namespace {

TEST(LocalEngine, HoldsNoMoreThanItsMemory) {
  Pipeline p;
  p.memory = 10 << 20;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 20; ++i) {
      Sample clip(std::string(in.key()) + "-" + std::to_string(i));
      clip.set("mp4", std::vector<uint8_t>(1 << 20));
      emit(std::move(clip));
    }
  });
  p.add("slow", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(1); });
  p.inputs(10, 1 << 20);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 210u);
  const std::string& report = p.reports.back();
  const auto peak = std::stoull(report.substr(report.find("\"peak\":") + 7));
  EXPECT_LE(peak, p.memory + (1 << 16)) << "figures and the rest of reported videos";
  EXPECT_GE(peak, p.memory / 2);
}

TEST(LocalEngine, RefusesResourcesThatItDoesNotKnow) {
  static kinora_resources said;
  kinora_stage table = *act_table();
  table.resources = [](void*, kinora_resources* out) -> int32_t {
    KINORA_FILL(out, &said);
    return KINORA_OK;
  };
  for (auto* member : {&said.ordered, &said.isolated}) {
    said = {sizeof said, 0, 1.0, 0.0, 0, 0, 0, 0, 0};
    *member = 77;
    Pipeline p;
    p.table = &table;
    p.add("keep", {}, [](Sample in, const Emit& emit, const kinora::Run&) { emit(std::move(in)); });
    p.inputs(1);
    EXPECT_THAT(p.run(), ::testing::HasSubstr(member == &said.ordered
                                                  ? "stage/act: ordered of its resources() is 77"
                                                  : "stage/act: isolated of its resources() is 77"));
    EXPECT_EQ(p.code, KINORA_ERROR_UNSUPPORTED);
    EXPECT_TRUE(p.outcomes.empty());
  }
}

TEST(LocalEngine, CountsBytesThatClonesShareOnce) {
  Pipeline p;
  p.memory = 3 << 20;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 50; ++i) emit(in.clone(std::string(in.key()) + "-" + std::to_string(i)));
  });
  std::atomic<int> together{0}, most{0};
  p.add("look", {0}, [&](Sample, const Emit&, const kinora::Run&) {
    most = std::max<int>(most, ++together);
    sleep_ms(2);
    --together;
  });
  p.inputs(2, 1 << 20);
  EXPECT_EQ(p.run(), "");
  EXPECT_GE(most, 3) << "clips of one video must not count as fifty videos";
}

TEST(LocalEngine, LetsASampleThatIsLargerThanTheBoundPassAlone) {
  Pipeline p;
  p.memory = 1000;
  std::atomic<int> together{0};
  p.add("grow", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    in.set("mp4", std::vector<uint8_t>(100000));
    emit(std::move(in));
  });
  p.add("look", {0}, [&](Sample, const Emit&, const kinora::Run&) {
    EXPECT_EQ(++together, 1);
    sleep_ms(1);
    --together;
  });
  p.inputs(20, 50000);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 20u);
}

// Releases tasks only in fours: none returns before three others are at work at the same time.
class Fours {
 public:
  void meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = here_ / 4;
    ++here_;
    changed_.notify_all();
    const bool met = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return here_ / 4 > round; });
    EXPECT_TRUE(met) << "a core stays idle while there is work";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
};

TEST(LocalEngine, GivesAllCoresToTheStageThatHasTheWork) {
  for (const bool first : {true, false}) {
    Pipeline p;
    p.threads = 4;
    Fours fours;
    p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
      if (first) fours.meet();
      emit(std::move(in));
    });
    p.add("b", {0}, [&](Sample, const Emit&, const kinora::Run&) {
      if (!first) fours.meet();
    });
    p.inputs(40);
    EXPECT_EQ(p.run(), "");
  }
}

TEST(LocalEngine, RunsNoMoreTasksThanItsCoresCarry) {
  Pipeline p;
  p.threads = 4;
  std::atomic<int> cores{0};
  const auto work = [&](int n) {
    EXPECT_LE(cores += n, 4);
    sleep_ms(1);
    cores -= n;
  };
  p.add("wide", {}, [&](Sample in, const Emit& emit, const kinora::Run& run) {
     EXPECT_EQ(run.threads(), 3);
     work(3);
     emit(std::move(in));
   }).cores = 3;
  p.add("narrow", {0}, [&](Sample, const Emit&, const kinora::Run&) { work(1); });
  p.inputs(50);
  EXPECT_EQ(p.run(), "");
}

// No device is used beyond its capacity, and an instance stays on its device, where its model is.
TEST(LocalEngine, SharesDevicesByTheirParts) {
  for (const double total : {2.0, 1.5}) {
    Pipeline p;
    p.threads = 8;
    p.options.gpus = total;
    std::mutex mutex;
    std::map<int, double> used;
    double most = 0;
    const auto work = [&](double share) {
      return [&, share](Sample in, const Emit& emit, const kinora::Run& run) {
        const int device = run.device().index;
        EXPECT_TRUE(run.device().is_cuda);
        {
          const std::lock_guard<std::mutex> lock(mutex);
          used[device] += share;
          EXPECT_LT(device, 2);
          EXPECT_LE(used[device], std::min(1.0, total - device) + 1e-9);
          double all = 0;
          for (const auto& [d, u] : used) all += u;
          most = test::worse(most, all);
        }
        sleep_ms(2);
        {
          const std::lock_guard<std::mutex> lock(mutex);
          used[device] -= share;
        }
        emit(std::move(in));
      };
    };
    p.add("small", {}, work(0.25)).gpus = 0.25;
    p.add("half", {0}, work(0.5)).gpus = 0.5;
    p.stages[0].cores = p.stages[1].cores = 0.5;
    p.inputs(80);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.counts()["kept"], 80);
    EXPECT_GE(most, total - 0.25) << "devices stay idle while there is work";
  }
}

// Whoever reserves no GPU, and whoever asks for one where there is none, is told the CPU.
TEST(LocalEngine, NamesTheCpuWithoutAGpu) {
  Pipeline p;
  p.options.gpus = 0;
  const auto look = [&](Sample in, const Emit& emit, const kinora::Run& run) {
    EXPECT_FALSE(run.device().is_cuda);
    EXPECT_EQ(run.device().index, 0);
    emit(std::move(in));
  };
  p.add("plain", {}, look);
  p.add("asks", {0}, look).gpus = 1;
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts()["kept"], 4);
}

// Decoders and encoders are shared like cores: as many at once as there are, and a stage that needs more
// gets all of them.
TEST(LocalEngine, SharesHardwareCoders) {
  for (const int64_t there : {0, 2, 3}) {
    Pipeline p;
    p.threads = 8;
    p.options.nvdec = there;
    p.options.nvenc = 1;
    std::atomic<int> decoding{0}, encoding{0}, most{0};
    const int room = static_cast<int>(std::max<int64_t>(1, there));
    const auto work = [&](std::atomic<int>& busy, int each, int all) {
      return [&, each, all](Sample in, const Emit& emit, const kinora::Run&) {
        EXPECT_LE(busy += each, all);
        if (&busy == &decoding) most = std::max<int>(most, busy);
        sleep_ms(2);
        busy -= each;
        emit(std::move(in));
      };
    };
    p.add("decode", {}, work(decoding, 1, room)).nvdec = 1;
    p.add("greedy", {0}, work(decoding, room, room)).nvdec = 7;
    p.add("encode", {1}, work(encoding, 1, 1)).nvenc = 1;
    for (auto& act : p.stages) act.cores = 0.1;
    p.inputs(60);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.counts()["kept"], 60);
    EXPECT_EQ(most, room) << "decoders stay idle while there is work";
    const auto stages = nlohmann::json::parse(p.reports.back())["stages"];
    EXPECT_EQ(stages[0]["limit"], room);
    EXPECT_EQ(stages[1]["limit"], 1);
    EXPECT_EQ(stages[2]["limit"], 1);
  }
}

}  // namespace
}  // namespace kinora::local
