// Samples that a stage makes of held inputs are reported before these.
#include <nlohmann/json.hpp>

#include "engine_testing.hpp"

namespace kinora::local {
namespace {

using Keys = std::vector<std::string>;

// The index of an outcome among all; fails if there is not exactly one.
size_t place_of(const Pipeline& p, const std::string& key) {
  size_t at = p.outcomes.size(), found = 0;
  for (size_t i = 0; i < p.outcomes.size(); ++i)
    if (p.outcomes[i].first == key) at = i, ++found;
  EXPECT_EQ(found, 1u) << key;
  return at;
}

Sample with_fact(Sample s, const std::string& film) {
  s.set("json", nlohmann::json{{"film", film}}.dump());
  return s;
}

// Source videos of `clips` clips each, whose facts name the source.
void add_cut(Pipeline& p, int clips) {
  p.add("cut", {}, [clips](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < clips; ++i)
      emit(with_fact(in.clone(std::string(in.key()) + "-" + std::to_string(i)), std::string(in.key())));
  });
}

// Samples called "report" take some time, so an input that does not wait for them is reported too early.
void add_slow(Pipeline& p, uint32_t from) {
  auto& act = p.add("slow", {from}, [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key().find("report") != std::string_view::npos) sleep_ms(30);
    emit(std::move(in));
  });
  act.workers = 4;
}

struct Report {
  const char* what;
  std::function<Sample(const Sample& held)> make;
  bool first;      // it is emitted before the input that it was made of
  bool names_one;  // otherwise it is made of all held inputs
};

const std::vector<Report>& reports() {
  static const auto key = [](const Sample& held) { return std::string(held.key()); };
  static const std::vector<Report> all{
      {"a copy", [](const Sample& held) { return held.clone(key(held) + "-report"); }, true, true},
      {"the fact names the clip", [](const Sample& held) { return with_fact(Sample("report-" + key(held)), key(held)); }, true, true},
      {"the fact names the clip, the key another's", [](const Sample& held) { return with_fact(Sample("0-0-report-" + key(held)), key(held)); }, true, true},
      {"no facts", [](const Sample& held) { return Sample(key(held) + "-report"); }, true, true},
      {"the fact names the film", [](const Sample& held) { return with_fact(Sample("report-" + key(held)), key(held).substr(0, key(held).find('-'))); }, true, false},
      {"it names nothing", [](const Sample& held) { return Sample("report-" + key(held)); }, true, false},
      {"a copy, after its clip", [](const Sample& held) { return held.clone(key(held) + "-report"); }, false, true}};
  return all;
}

// A report of each clip, emitted in finish() or when later clips fill the batch.
void run_reports(const Report& report, size_t batch, int inputs) {
  Pipeline p;
  Keys made;
  std::map<std::string, std::string> of;
  std::vector<Sample> kept;
  const auto tell = [&](const Emit& emit) {
    for (auto& clip : std::exchange(kept, {})) {
      Sample one = report.make(clip);
      of[std::string(one.key())] = clip.key();
      Sample same = clip;
      if (report.first) emit(std::move(one));
      emit(std::move(same));
      if (!report.first) emit(std::move(one));
    }
  };
  add_cut(p, 2);
  auto& act = p.add("batch", {0}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    if (kept.size() >= batch) tell(emit);
    kept.push_back(std::move(in));
    emit.hold();
  });
  act.workers = 1;
  act.finish = [&](const Emit& emit, const kinora::Run&) { tell(emit); };
  add_slow(p, 1);
  p.inputs(inputs);
  EXPECT_EQ(p.run(), "") << report.what;
  EXPECT_EQ(p.outcomes.size(), static_cast<size_t>(inputs) * 5) << report.what;
  for (const auto& [key, clip] : of) {
    if (report.first) {
      EXPECT_LT(place_of(p, key), place_of(p, clip)) << report.what;
    }
    EXPECT_LT(place_of(p, key), place_of(p, clip.substr(0, clip.find('-')))) << report.what;
  }
}

TEST(Parents, WhatFinishMakesOfAClipEndsBeforeIt) {
  for (const auto& report : reports()) run_reports(report, SIZE_MAX, 4);
}

TEST(Parents, WhatAFlushMakesOfAClipEndsBeforeIt) {
  for (const auto& report : reports()) run_reports(report, 3, 4);
}

// A sample out of a thousand that names its clip waits for that clip only.
TEST(Parents, AClipWaitsForWhatWasMadeOfItAndForNothingElse) {
  Pipeline p;
  std::vector<Sample> kept;
  add_cut(p, 2);
  auto& act = p.add("batch", {0}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    kept.push_back(std::move(in));
    emit.hold();
  });
  act.workers = 1;
  act.finish = [&](const Emit& emit, const kinora::Run&) {
    emit(Sample("0-0-report"));
    for (auto& clip : std::exchange(kept, {})) emit(std::move(clip));
  };
  std::atomic<bool> other{false};
  p.add("slow", {1}, [&](Sample in, const Emit& emit, const kinora::Run&) {
     for (int i = 0; in.key() == "0-0-report" && !other && i < 5000; ++i) sleep_ms(1);
     emit(std::move(in));
   }).workers = 4;
  p.on_done = [&](const kinora_outcome& o) {
    if (view(samples_api().key(o.sample)) == "3-1") other = true;
    return int32_t{KINORA_OK};
  };
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_LT(place_of(p, "3-1"), place_of(p, "0-0-report"));
  EXPECT_LT(place_of(p, "0-0-report"), place_of(p, "0-0"));
}

// A sample made of several is made again with all of its input; one made of a single input, like the others.
TEST(Parents, WhoIsOfOneInputAndWhoIsOfMore) {
  Pipeline p;
  std::vector<Sample> kept;
  auto& act = p.add("batch", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    kept.push_back(std::move(in));
    emit.hold();
  });
  act.workers = 1;
  act.finish = [&](const Emit& emit, const kinora::Run&) {
    emit(Sample("0-x"));
    emit(Sample("all"));
    for (auto& s : std::exchange(kept, {})) emit(std::move(s));
  };
  std::map<std::string, int32_t> made;
  p.on_done = [&](const kinora_outcome& o) {
    made[std::string(view(samples_api().key(o.sample)))] = o.made;
    return int32_t{KINORA_OK};
  };
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(made, (std::map<std::string, int32_t>{{"0", 0}, {"1", 0}, {"0-x", 1}, {"all", 2}}));
}

TEST(Parents, ASampleMayNotTakeTheKeyOfItsFilm) {
  Pipeline p;
  add_cut(p, 1);
  std::vector<Sample> kept;
  auto& act = p.add("name", {0}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "0-0") {
      emit(in.clone("0"));
      return emit(std::move(in));
    }
    kept.push_back(std::move(in));
    emit.hold();
  });
  act.workers = 1;
  act.finish = [&](const Emit& emit, const kinora::Run&) {
    for (auto& s : std::exchange(kept, {})) {
      emit.drop(s.clone("1"), "name.short", 1);
      emit(std::move(s));
    }
  };
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, int> ends;
  for (const auto& [key, o] : p.outcomes) ++ends[key + (o.made ? " made " : " input ") + o.reason];
  const auto taken = [](const std::string& key) {
    return key + " made stage 'name' emitted a sample called '" + key +
           "', the key of the input that it was made of; fix the stage: each sample needs its own key";
  };
  EXPECT_EQ(ends, (std::map<std::string, int>{{"0 input ", 1}, {"1 input ", 1}, {"0-0 made ", 1}, {"1-0 made ", 1},
                                              {taken("0"), 1}, {taken("1"), 1}}));
}

}  // namespace
}  // namespace kinora::local
