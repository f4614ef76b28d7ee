// stage/dedup.semantic against a plain comparison of all pairs, and its keep order.
#include <cmath>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clusters.hpp"
#include "dedup_stage.hpp"
#include "kinora/curation.hpp"
#include "kinora/testing.hpp"
#include "signature_testing.hpp"

namespace kinora::dedup {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Vectors = std::vector<std::vector<float>>;

// Random directions; every third one is close to an earlier one, with cosines spread around 0.99.
Vectors planted(size_t count, size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Vectors out;
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> v(size);
    for (double& x : v) x = normal(random);
    if (i % 3 == 2) {
      const auto& from = out[random() % i];
      const double angle = 0.02 + 0.3 * static_cast<double>(random() % 1000) / 1000,
                   noise = std::tan(angle) / std::sqrt(size);
      for (size_t d = 0; d < size; ++d) v[d] = from[d] + noise * v[d];
    }
    double square = 0;
    for (const double x : v) square += x * x;
    out.emplace_back();
    for (const double x : v) out.back().push_back(static_cast<float>(x / std::sqrt(square)));
  }
  return out;
}

std::string key_of(size_t i) { return std::to_string(100000 + i); }

Sample sample_of(size_t i, const std::vector<float>& vector, const json& facts = json::object()) {
  Sample sample(key_of(i));
  sample.set("classic.npy", to_npy(vector, {static_cast<int64_t>(vector.size())}));
  sample.set("json", facts.dump());
  return sample;
}

struct Ends {
  std::map<std::string, double> dropped;  // key -> score
  std::map<std::string, json> facts;      // of all clips, by key
  std::vector<std::string> kept;
};

Ends run(const std::vector<Sample>& samples, const DedupSemantic::Options& options, int threads = 1) {
  testing::Collector out;
  DedupSemantic stage(options);
  std::vector<Sample> all;  // dropped samples are known only by key
  for (const auto& s : samples) {
    all.push_back(s);
    stage.process(s, out.emit(), testing::Run("", threads));
  }
  EXPECT_EQ(out.held, static_cast<int>(samples.size()));
  EXPECT_TRUE(out.emitted.empty() && out.dropped.empty());
  stage.finish(out.emit(), testing::Run("", threads));
  Ends ends;
  for (const auto& d : out.dropped) ends.dropped[d.key] = d.score;
  for (const auto& s : out.emitted) ends.kept.emplace_back(s.key());
  for (const auto& s : all) ends.facts[std::string(s.key())] = json_field(s, "json");
  EXPECT_EQ(ends.dropped.size() + ends.kept.size(), samples.size());
  return ends;
}

std::vector<Sample> samples_of(const Vectors& vectors) {
  testing::start();
  std::vector<Sample> out;
  for (size_t i = 0; i < vectors.size(); ++i) out.push_back(sample_of(i, vectors[i]));
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

// In the order of keys: a clip is dropped if its cosine with any earlier clip of its cluster is at least 1 -
// eps. It is a copy of the nearest one, or of the clip that one is a copy of.
void expect_plain(const Ends& ends, const Vectors& vectors, double eps, bool clustered) {
  const auto cluster = [&](size_t i) {
    return clustered ? ends.facts.at(key_of(i)).at("dedup").at("cluster").get<int64_t>() : 0;
  };
  size_t dropped = 0, chains = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    double best = -2;
    size_t of = 0;
    for (size_t j = 0; j < i; ++j)
      if (const double c = cosine(vectors[i], vectors[j]); cluster(i) == cluster(j) && c > best)
        best = c, of = j;
    if (std::abs(best - (1 - eps)) < 1e-6) continue;  // float32 may place it on either side
    ASSERT_EQ(ends.dropped.contains(key_of(i)), best > 1 - eps) << i << " " << best;
    if (best < 1 - eps) continue;
    ++dropped;
    EXPECT_NEAR(ends.dropped.at(key_of(i)), best, 1e-6);
    const json& duplicate = ends.facts.at(key_of(i))["duplicate"];
    EXPECT_EQ(duplicate.value("nearest", duplicate["of"].get<std::string>()), key_of(of));
    const bool nearest_went = ends.dropped.contains(key_of(of));
    chains += nearest_went;
    EXPECT_EQ(duplicate.contains("nearest"), nearest_went);
    EXPECT_EQ(duplicate["of"],
              nearest_went ? ends.facts.at(key_of(of))["duplicate"]["of"] : json(key_of(of)));
    EXPECT_FALSE(ends.dropped.contains(duplicate["of"].get<std::string>()));
  }
  EXPECT_GT(chains, 0u);
  EXPECT_GT(dropped, vectors.size() / 20);
  EXPECT_LT(dropped, vectors.size() / 3);
}

TEST(Dedup, APictureIsACopyOfAPictureAndNotOfAVideo) {
  testing::start();
  const std::vector<float> vector{0.6F, 0.8F};
  const json picture{{"picture", "jpg"}};
  const Ends ends = run({sample_of(0, vector), sample_of(1, vector, picture), sample_of(2, vector),
                         sample_of(3, vector, picture)},
                        {});
  EXPECT_THAT(ends.kept, ElementsAre(key_of(0), key_of(1)));
  EXPECT_EQ(ends.facts.at(key_of(2))["duplicate"]["of"], key_of(0));
  EXPECT_EQ(ends.facts.at(key_of(3))["duplicate"]["of"], key_of(1));
}

TEST(Dedup, InOneClusterEqualsEverythingWithEverything) {
  const auto vectors = planted(700, 24, 1);
  for (const double eps : {0.001, 0.01}) {
    const Ends ends = run(samples_of(vectors), {.eps = eps, .clusters = 1});
    if (eps > 0.005) expect_plain(ends, vectors, eps, false);
  }
  expect_plain(run(samples_of(vectors), {.eps = 0.01}), vectors, 0.01,
               false);  // up to 1,024 clips form one cluster
}

TEST(Dedup, InClustersEqualsEverythingWithEverythingOfTheCluster) {
  const auto vectors = planted(1500, 24, 2);
  const Ends ends = run(samples_of(vectors), {.eps = 0.01, .clusters = 12});
  std::map<int64_t, int> sizes;
  for (const auto& [key, facts] : ends.facts) ++sizes[facts.at("dedup").at("cluster").get<int64_t>()];
  EXPECT_EQ(sizes.size(), 12u);
  expect_plain(ends, vectors, 0.01, true);
  // The cost of clustering: copies on either side of a border are missed.
  const Ends whole = run(samples_of(vectors), {.eps = 0.01, .clusters = 1});
  EXPECT_GT(static_cast<double>(ends.dropped.size()), 0.9 * static_cast<double>(whole.dropped.size()));
}

TEST(Dedup, ScoreKeepsWhatOnDropsAndNotesTheSame) {
  const auto vectors = planted(300, 24, 5);
  const Ends on = run(samples_of(vectors), {.eps = 0.01}),
             score = run(samples_of(vectors), {.mode = "score", .eps = 0.01});
  EXPECT_GT(on.dropped.size(), 10u);
  EXPECT_EQ(score.kept.size(), vectors.size());
  for (const auto& [key, facts] : score.facts) {
    EXPECT_EQ(facts.contains("duplicate"), on.dropped.contains(key)) << key;
    if (!on.dropped.contains(key)) continue;
    EXPECT_EQ(facts["duplicate"], on.facts.at(key)["duplicate"]);
    EXPECT_EQ(facts["scores"]["dedup.semantic"], on.dropped.at(key));
  }
}

// Two clips of this cosine.
std::vector<Sample> pair_of(float cosine, const json& facts = json::object()) {
  testing::start();
  return {sample_of(0, {1, 0}, facts), sample_of(1, {cosine, std::sqrt(1 - cosine * cosine)}, facts)};
}

// Two shots of one dark stage have a cosine of 0.995 by embed.classic; with a network's embedding this means
// a copy.
TEST(Dedup, HowNearACopyIsIsWhatTheEmbeddingSaysUnlessTheUserDoes) {
  const auto dropped = [](float cosine, const json& about, double eps) {
    return run(pair_of(cosine, {{"embeddings", {{"classic", about}}}}), {.eps = eps}).dropped.size();
  };
  const json near{{"model", "embed.classic"}, {"eps", 0.002}}, other{{"model", "clip.pt"}};
  for (const json& about : {near, other, json(), json{{"eps", "x"}}, json{{"eps", -3}}}) {
    EXPECT_EQ(dropped(0.999F, about, -1), 1u) << about;
    EXPECT_EQ(dropped(0.995F, about, 0.01), 1u) << about;
    EXPECT_EQ(dropped(0.98F, about, -1), 0u) << about;
    EXPECT_EQ(dropped(0.995F, about, -1), about == near ? 0u : 1u) << about;
  }
}

// Clips of this cosine with these signatures; an empty one is not set.
Ends seen(float cosine, const std::string& first, const std::string& second,
          const DedupSemantic::Options& options = {}) {
  auto samples = pair_of(cosine, {{"duration_s", 8}});
  if (!first.empty()) samples[0].set("signature", first);
  if (!second.empty()) samples[1].set("signature", second);
  return run(samples, options);
}

TEST(Dedup, ALookAlikeStaysAndARetimedCopyGoes) {
  const std::string shot = signature_bytes(1), other = signature_bytes(2),
                    fast = signature_bytes(1, {.speed = 1.04});
  EXPECT_EQ(seen(0.9999F, shot, other).dropped.size(), 0u);
  const Ends ends = seen(0.95F, shot, fast);
  ASSERT_EQ(ends.dropped.size(), 1u);
  EXPECT_NEAR(ends.dropped.at(key_of(1)), 0.95, 1e-6);
  const json& duplicate = ends.facts.at(key_of(1))["duplicate"];
  EXPECT_NEAR(duplicate["motion"]["speed"].get<double>(), 1.04, 0.011);
  EXPECT_GT(duplicate["motion"]["correlation"].get<double>(), 0.95);
  EXPECT_THAT(
      duplicate["why"].get<std::string>(),
      ::testing::MatchesRegex(
          "copy of 100000: cosine 0.9500, motion (0.9[5-9]|1.00) alike(, [0-9.]+ s (later|earlier))?"))
      << "without a speed, which a few seconds do not tell";
  EXPECT_EQ(seen(0.95F, shot, fast, {.reach = 0.04}).dropped.size(), 0u) << "beyond its reach";
  EXPECT_EQ(seen(0.95F, shot, fast, {.motion = 1}).dropped.size(), 0u) << "the embedding alone";
  EXPECT_EQ(seen(0.9999F, shot, other, {.motion = 1}).dropped.size(), 1u) << "the embedding alone";
}

TEST(Dedup, WhereNothingMovesOrOneHasNoSignatureTheEmbeddingDecides) {
  const std::string still = signature_bytes(1, {.gain = 0}), shot = signature_bytes(1);
  for (const auto& [first, second] :
       {std::pair(still, still), {shot, ""}, {"", shot}, {signature_bytes(1, {.frames = 3}), shot}}) {
    const Ends ends = seen(0.995F, first, second);
    EXPECT_EQ(ends.dropped.size(), 1u);
    EXPECT_FALSE(ends.facts.at(key_of(1))["duplicate"].contains("motion"));
    EXPECT_EQ(ends.facts.at(key_of(1))["duplicate"]["why"],
              "copy of 100000: cosine 0.9950, by the embedding alone");
    EXPECT_EQ(seen(0.98F, first, second).dropped.size(), 0u);
  }
  EXPECT_EQ(seen(0.9999F, still, shot).dropped.size(), 0u) << "one of them moves";
}

// Two title cards that fade in and out: their motion is the fade.
TEST(Dedup, WhereOnlyTheLightChangesTheEmbeddingDecides) {
  const Shown fading{.frames = 16, .speed = 0, .fade = 5},
      other{.frames = 16, .speed = 0, .start = 0.1, .fade = 5};
  const std::string card = signature_bytes(1, fading), next = signature_bytes(1, other);
  EXPECT_GT(seen(0.995F, card, next).dropped.size(), 0u);
  EXPECT_EQ(seen(0.98F, card, next).dropped.size(), 0u);
}

// The most similar clip is another shot; the copy is the one after it.
TEST(Dedup, LooksAtMoreThanTheNearestClip) {
  testing::start();
  std::vector<Sample> samples{sample_of(0, {1, 0}), sample_of(1, {0.9F, 0.4359F}),
                              sample_of(2, {0.95F, 0.3122F})};
  samples[0].set("signature", signature_bytes(1));
  samples[1].set("signature", signature_bytes(2));
  samples[2].set("signature", signature_bytes(1, {.base = 60}));
  const Ends ends = run(samples, {.keep = "first"});
  ASSERT_EQ(ends.dropped.size(), 1u);
  EXPECT_EQ(ends.facts.at(key_of(2))["duplicate"]["of"], key_of(0));
}

TEST(Dedup, ThreadsAndRunsDecideTheSame) {
  const auto vectors = planted(3000, 16, 3);
  const Ends one = run(samples_of(vectors), {.eps = 0.01, .clusters = 9});
  for (const int threads : {1, 2, 4}) {
    const Ends other = run(samples_of(vectors), {.eps = 0.01, .clusters = 9}, threads);
    EXPECT_EQ(other.dropped, one.dropped);
    EXPECT_EQ(other.facts, one.facts);
    EXPECT_EQ(other.kept, one.kept);
  }
}

// The best k-means clustering of well separated groups is the groups.
TEST(Dedup, ClustersAreTheGroups) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.01F);
  std::vector<float> vectors;
  for (size_t i = 0; i < 400; ++i)
    for (size_t d = 0; d < 8; ++d) vectors.push_back((d == i % 4 ? 1.0F : 0.0F) + normal(random));
  const auto cluster = clusters_of(vectors, 8, {.clusters = 4});
  for (size_t i = 0; i < 400; ++i)
    for (size_t j = 0; j < 400; ++j) ASSERT_EQ(cluster[i] == cluster[j], i % 4 == j % 4);
}

TEST(Dedup, MoreIterationsOfKMeansAreOtherClusters) {
  const auto samples = samples_of(planted(400, 8, 3));
  DedupSemantic::Options once, often;
  once.clusters = often.clusters = 12;
  once.iterations = 1;
  EXPECT_NE(run(samples, once).facts, run(samples, often).facts);
}

std::vector<std::string> kept(const std::vector<json>& facts, const DedupSemantic::Options& options) {
  testing::start();
  std::vector<Sample> samples;
  for (size_t i = 0; i < facts.size(); ++i) samples.push_back(sample_of(i, {1, 0}, facts[i]));
  return run(samples, options).kept;
}

TEST(Dedup, KeepsByItsRule) {
  const std::vector<json> clips{
      {{"width", 64}, {"height", 36}, {"duration_s", 2.4}, {"scores", {{"filter.blur", 0.1}}}},
      {{"width", 128}, {"height", 72}, {"duration_s", 2}, {"scores", {{"filter.blur", 0.5}}}},
      {{"width", 64}, {"height", 36}, {"duration_s", 2.2}, {"scores", {{"filter.blur", 0.9}}}},
      {{"duration_s", "long"}}};
  EXPECT_THAT(kept(clips, {.keep = "largest"}), ElementsAre(key_of(1)));
  EXPECT_THAT(kept(clips, {.keep = "longest"}), ElementsAre(key_of(0)));
  EXPECT_THAT(kept(clips, {.keep = "best", .score = "filter.blur"}), ElementsAre(key_of(2)));
  EXPECT_THAT(kept(clips, {.keep = "first"}), ElementsAre(key_of(0)));
  EXPECT_THAT(kept({clips[3], clips[0]}, {.keep = "largest"}),
              ElementsAre(key_of(1)));  // a missing number ranks last
}

json video(const std::string& source, double seconds, int width, double fps) {
  return {{"film", source}, {"duration_s", seconds}, {"width", width}, {"height", width / 2}, {"fps", fps}};
}

TEST(Dedup, ACopyOfNearlyEqualLengthStaysOnlyIfItIsBetter) {
  const json original = video("a", 2.96, 640, 25), again = video("b", 3.00, 640, 15);
  EXPECT_THAT(kept({again, original}, {.keep = "largest"}), ElementsAre(key_of(1)));
  EXPECT_THAT(kept({original, again}, {.keep = "longest"}), ElementsAre(key_of(0)));
}

TEST(Dedup, OfTheSameBytesTheOneOfAWholeVideoStays) {
  testing::start();
  std::vector<Sample> samples;
  for (size_t i = 0; i < 2; ++i) {
    samples.push_back(sample_of(i, {1, 0}, video(i == 0 ? "broken" : "good", 3, 640, 25)));
    samples.back().set("sha256", "ab");
  }
  EXPECT_THAT(run(samples, {}).kept, ElementsAre(key_of(0)));
  samples[0].set("damaged", "1");
  EXPECT_THAT(run(samples, {}).kept, ElementsAre(key_of(1)));
}

TEST(Dedup, AnExcerptNeverStandsForTheWhole) {
  const json whole = video("a", 5.53, 560, 25), excerpt = video("b", 1.72, 640, 25),
             again = video("c", 5.6, 480, 25);
  for (const char* keep : {"largest", "longest", "first"}) {
    EXPECT_THAT(kept({excerpt, whole}, {.keep = keep}), ElementsAre(key_of(1))) << keep;
    EXPECT_THAT(kept({excerpt, again, whole}, {.keep = keep}),
                ElementsAre(std::string(keep) == "first" ? key_of(1) : key_of(2)))
        << keep;
  }
  testing::start();
  const Ends ends =
      run({sample_of(0, {1, 0}, excerpt), sample_of(1, {1, 0}, again), sample_of(2, {1, 0}, whole)},
          {.keep = "largest"});
  for (const size_t i : {0, 1}) EXPECT_EQ(ends.facts.at(key_of(i))["duplicate"]["of"], key_of(2));
}

TEST(Dedup, ChainsOfCopiesStandForNoneThatIsMuchLonger) {
  std::mt19937 random(3);
  std::vector<json> facts;
  for (int i = 0; i < 200; ++i)
    facts.push_back(video("v" + std::to_string(random() % 20), 1 + static_cast<double>(random() % 300) / 100,
                          64 * (1 + static_cast<int>(random() % 3)), 24 + random() % 3));
  testing::start();
  std::vector<Sample> samples;
  for (size_t i = 0; i < facts.size(); ++i) samples.push_back(sample_of(i, {1, 0}, facts[i]));
  for (const char* keep : {"largest", "longest", "first"}) {
    const Ends ends = run(samples, {.keep = keep});
    EXPECT_GT(ends.dropped.size(), 150u);
    for (const auto& [key, score] : ends.dropped) {
      const std::string of = ends.facts.at(key)["duplicate"]["of"];
      EXPECT_FALSE(ends.dropped.contains(of));
      EXPECT_LE(ends.facts.at(key)["duration_s"].get<double>(),
                1.25 * ends.facts.at(of)["duration_s"].get<double>() + 1e-9)
          << keep;
    }
  }
}

TEST(Dedup, OneOfTwoVideosStaysWhole) {
  // Of the first clips b is better, of the second ones, which are longer, a is.
  std::vector<json> facts{video("a", 2, 640, 24), video("a", 4, 640, 25), video("b", 2, 640, 25),
                          video("b", 4, 640, 24)};
  testing::start();
  const auto vectors = Vectors{{1, 0}, {0, 1}, {1, 0}, {0, 1}};
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<Sample> samples;
    for (size_t i = 0; i < facts.size(); ++i) samples.push_back(sample_of(i, vectors[i], facts[i]));
    for (const char* keep : {"largest", "longest"}) {
      const auto stay = run(samples, {.keep = keep}).kept;
      ASSERT_EQ(stay.size(), 2u);
      EXPECT_TRUE(stay == (std::vector{key_of(0), key_of(1)}) || stay == (std::vector{key_of(2), key_of(3)}));
    }
    for (size_t i = 0; i < 2; ++i) facts[i]["fps"] = 30;  // now a is better throughout
  }
}

TEST(Dedup, ExactIsOfTheContentWhateverTheEmbedding) {
  testing::start();
  Sample a = sample_of(0, {1, 0}), b = sample_of(1, {0, 1}), c = sample_of(2, {0, -1}),
         d = sample_of(3, {-1, 0});
  for (Sample* same : {&a, &b}) same->set("sha256", "11");
  c.set("sha256", "22");
  const Ends ends = run({a, b, c, d}, {});
  EXPECT_THAT(ends.kept, ElementsAre(key_of(0), key_of(2), key_of(3)));
  EXPECT_EQ(ends.dropped.at(key_of(1)), 1.0);
  EXPECT_EQ(
      ends.facts.at(key_of(1))["duplicate"],
      json({{"of", key_of(0)}, {"similarity", 1.0}, {"why", "copy of " + key_of(0) + ": the same bytes"}}));
  EXPECT_EQ(run({a, b, c, d}, {.exact = false}).dropped.size(), 0u);
  EXPECT_EQ(run({a, b, c, d}, {.eps = 2, .semantic = false}).dropped.size(), 1u);
}

TEST(Dedup, OneBadEmbeddingIsOneFailure) {
  testing::start();
  testing::Collector out;
  DedupSemantic stage({});
  stage.process(sample_of(0, {1, 0}), out.emit(), testing::Run());
  const auto why = [&](const Sample& sample) {
    try {
      stage.process(sample, out.emit(), testing::Run());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(why(sample_of(1, {1, 0, 0})), HasSubstr("it has 3 numbers, the earlier clips 2"));
  EXPECT_THAT(why(sample_of(2, {0, 0})), HasSubstr("finite and not all zeros"));
  EXPECT_THAT(why(sample_of(3, {NAN, 0})), HasSubstr("finite and not all zeros"));
  EXPECT_THAT(why(Sample("x")), HasSubstr("x.classic.npy is missing"));
  Sample broken = sample_of(4, {1, 0});
  broken.set("json", "7");
  EXPECT_THAT(why(broken), HasSubstr("not a JSON object"));
  Sample cut = sample_of(6, {1, 0});
  cut.set("signature", "xyz");
  EXPECT_THAT(why(cut), HasSubstr("100006.signature: expected frames of 64 bytes, got 3 bytes"));
  stage.process(sample_of(5, {0, 1}), out.emit(), testing::Run());
  stage.finish(out.emit(), testing::Run());
  EXPECT_EQ(out.emitted.size(), 2u);
}

TEST(Dedup, MoreThanItsMemoryIsRefusedWithTheRemedy) {
  testing::start();
  // 1,000 numbers take 4,000 bytes in the field and twice as many outside it.
  const auto fits = [](int64_t memory) {
    testing::Collector out;
    DedupSemantic stage({.memory = memory});
    size_t n = 0;
    try {
      for (; n < 100; ++n)
        stage.process(sample_of(n, std::vector<float>(1000, 1)), out.emit(), testing::Run());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_NO_MEMORY);
      EXPECT_THAT(e.what(), HasSubstr("give the job more memory or fewer clips"));
    }
    return n;
  };
  EXPECT_EQ(fits(0), 100u);
  EXPECT_EQ(fits(100 * 13000), 100u);
  EXPECT_GT(fits(50 * 12000), 40u);
  EXPECT_LE(fits(50 * 12000), 50u);
}

TEST(Dedup, OfNothingIsNothing) { EXPECT_TRUE(run({}, {}).kept.empty()); }

}  // namespace
}  // namespace kinora::dedup
