// Samples that a stage makes of held inputs are reported before these.
#include "plugins/engines/local/engine_testing.hpp"

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

// Source videos of `clips` clips each.
void add_cut(Pipeline& p, int clips) {
  p.add("cut", {}, [clips](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < clips; ++i) emit(in.clone(std::string(in.key()) + "-" + std::to_string(i)));
  });
}

// Samples called "report" take some time, so an input that does not wait for them is reported too early.
void add_slow(Pipeline& p, uint32_t from) {
  auto& act = p.add("slow", {from}, [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key().starts_with("report")) sleep_ms(30);
    emit(std::move(in));
  });
  act.workers = 4;
}

void name(const Emit& emit, std::initializer_list<std::string_view> keys) {
  emit.made_of({keys.begin(), keys.size()});
}

// A report of each clip, emitted in finish() or when later clips fill the batch. names: whether the stage
// names its parent.
void run_reports(bool names, size_t batch, int inputs) {
  Pipeline p;
  std::vector<Sample> kept;
  std::map<std::string, size_t> parents;
  const auto tell = [&](const Emit& emit) {
    for (auto& clip : std::exchange(kept, {})) {
      if (names) name(emit, {clip.key()});
      emit(Sample("report-" + std::string(clip.key())));
      emit(std::move(clip));
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
  p.on_done = [&](const kinora_outcome& o) {
    const std::string key(view(samples_api().key(o.sample)));
    parents[key] = o.n_parents;
    if (names && key.starts_with("report")) {
      EXPECT_EQ(view(o.parents[0]), key.substr(7));
      EXPECT_EQ(view(o.inputs[0]), key.substr(7, 1));
    }
    return int32_t{KINORA_OK};
  };
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), static_cast<size_t>(inputs) * 5);
  for (const auto& [key, count] : parents) {
    if (!key.starts_with("report")) continue;
    EXPECT_TRUE(!names || count == 1u) << key;
    EXPECT_LT(place_of(p, key), place_of(p, key.substr(7)));
    EXPECT_LT(place_of(p, key), place_of(p, key.substr(7, 1)));
  }
}

TEST(Parents, WhatFinishMakesOfAClipEndsBeforeIt) {
  for (const bool names : {false, true}) run_reports(names, SIZE_MAX, 4);
}

TEST(Parents, WhatAFlushMakesOfAClipEndsBeforeIt) {
  for (const bool names : {false, true}) run_reports(names, 3, 4);
}

// A clip waits for the samples that were made of it, and no other clip does.
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
    name(emit, {"0-0"});
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
    name(emit, {"0"});
    emit(Sample("of one"));
    name(emit, {"0", "2"});
    emit(Sample("of two"));
    emit(Sample("of all"));
    for (auto& s : std::exchange(kept, {})) emit(std::move(s));
  };
  p.add("copies", {0}, pass);
  p.add("other copies", {0}, pass);
  std::map<std::string, std::string> made;
  p.on_done = [&](const kinora_outcome& o) {
    std::string& out = made[std::string(view(samples_api().key(o.sample)))] = std::to_string(o.made) + ":";
    for (uint32_t i = 0; i < o.n_inputs; ++i) out += std::string(view(o.inputs[i])) + " ";
    for (uint32_t i = 0; i < o.n_parents; ++i) out += "<" + std::string(view(o.parents[i]));
    return int32_t{KINORA_OK};
  };
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(made, (std::map<std::string, std::string>{{"0", "0:0 "},
                                                      {"1", "0:1 "},
                                                      {"2", "0:2 "},
                                                      {"0@other copies", "1:0 <0"},
                                                      {"1@other copies", "1:1 <1"},
                                                      {"2@other copies", "1:2 <2"},
                                                      {"of one", "1:0 <0"},
                                                      {"of two", "2:0 2 <0<2"},
                                                      {"of all", "2:0 1 2 <0<1<2"},
                                                      {"of one@other copies", "2:0 <of one"},
                                                      {"of two@other copies", "2:0 2 <of two"},
                                                      {"of all@other copies", "2:0 1 2 <of all"}}));
}

TEST(Parents, WhatFinishMakesOfNothingHasNoneAndAWrongNameIsRefused) {
  Pipeline p;
  Sample kept("none");
  p.add("batch", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    try {
      name(emit, {"elsewhere"});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_NOT_FOUND);
      EXPECT_NE(
          std::string(e.what()).find("made_of(): 'elsewhere' is neither an input of this call nor held"),
          std::string::npos)
          << e.what();
    }
    kept = std::move(in);
    emit.hold();
  });
  p.stages.back().finish = [&](const Emit& emit, const kinora::Run&) {
    emit(std::move(kept));
    emit(Sample("late"));
  };
  std::map<std::string, uint32_t> inputs;
  p.on_done = [&](const kinora_outcome& o) {
    inputs[std::string(view(samples_api().key(o.sample)))] = o.n_inputs;
    return int32_t{KINORA_OK};
  };
  p.inputs(1);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(inputs, (std::map<std::string, uint32_t>{{"0", 1}, {"late", 0}}));
}

TEST(Parents, ASampleMayNotTakeTheKeyOfItsVideo) {
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
  EXPECT_EQ(ends, (std::map<std::string, int>{{"0 input ", 1},
                                              {"1 input ", 1},
                                              {"0-0 made ", 1},
                                              {"1-0 made ", 1},
                                              {taken("0"), 1},
                                              {taken("1"), 1}}));
}

}  // namespace
}  // namespace kinora::local
