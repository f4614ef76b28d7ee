// The filters of the built plugin, through the C ABI, on frames whose scores are known in advance.
#include <cmath>
#include <random>

#include <opencv2/imgproc.hpp>

#include "bars.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "core/runtime/call.hpp"
#include "core/runtime/runtime.hpp"
#include "flow.hpp"
#include "host/stages/one_stage.hpp"
#include "text_regions.hpp"

namespace kinora::filters {
namespace {

using core::json;
using ::testing::HasSubstr;

core::Runtime& runtime() {
  static const auto started = core::or_throw(core::Runtime::start({}));
  return *started;
}

struct Started : ::testing::Environment {
  void SetUp() override { runtime(); }
};
[[maybe_unused]] const auto* const started = ::testing::AddGlobalTestEnvironment(new Started);

// A sample of grey frames from lumas, one per second.
Sample video(const std::vector<cv::Mat>& lumas, json facts = json::object()) {
  std::vector<uint8_t> pixels;
  std::vector<double> times;
  for (const auto& luma : lumas) {
    for (const auto v : cv::Mat_<uint8_t>(luma)) pixels.insert(pixels.end(), 3, v);
    times.push_back(static_cast<double>(times.size()));
  }
  Sample out("made");
  if (!facts.contains("frames_at")) facts["frames_at"] = times;
  out.set("json", facts.dump());
  out.set_tensor("frames", std::move(pixels),
                 {static_cast<int64_t>(lumas.size()), lumas.front().rows, lumas.front().cols, 3},
                 KINORA_DL_UINT, 8);
  return out;
}

cv::Mat grey(int level, int width = 64, int height = 48) { return {height, width, CV_8U, cv::Scalar(level)}; }

// A filter's decision on a sample.
struct Judged {
  std::string rule;  // empty: kept
  double score = 0;  // given with the drop
  json facts;
  double noted(const std::string& rule_of) const { return facts.at("scores").at(rule_of).get<double>(); }
};

Judged judge(const std::string& id, const Sample& sample, const json& options = json::object()) {
  const auto component = core::or_throw(runtime().registry().open("stage", id));
  const auto made = core::or_throw(core::Options::make(*component.spec, options));
  const auto& stage = component.table<kinora_stage>();
  void* self = core::made([&] { return stage.create(host(), made.abi()); }, id);
  const std::unique_ptr<void, void (*)(void*)> owned(self, stage.destroy);
  core::StageResults results;
  const kinora_emit sink = results.sink();
  core::Call call;
  const kinora_run run = core::run_of(call);
  core::called(stage.process(self, sample.clone("made").get(), &sink, &run), id);
  if (!results.dropped.empty()) {
    const auto& dropped = results.dropped[0];
    return {dropped.rule, dropped.score, json::parse(dropped.sample.need("json"))};
  }
  return {"", 0, json::parse(results.emitted.at(0).need("json"))};
}

std::string error_of(const std::string& id, const Sample& sample, const json& options = json::object()) {
  try {
    judge(id, sample, options);
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << id << ": no error";
  return "";
}

double score(const std::string& id, const std::vector<cv::Mat>& lumas, json options = json::object()) {
  options["mode"] = "score";
  return judge(id, video(lumas), options).noted(id);
}

// Smooth noise, trackable everywhere, shifted by `shift` pixels along x.
cv::Mat texture(double shift, int width = 320, int height = 180) {
  cv::Mat big(height + 40, width + 80, CV_8U), out;
  cv::RNG random(3);
  random.fill(big, cv::RNG::UNIFORM, 0, 255);
  cv::GaussianBlur(big, big, {}, 3);
  cv::normalize(big, big, 0, 255, cv::NORM_MINMAX);
  const cv::Mat move = (cv::Mat_<double>(2, 3) << 1, 0, -20 - shift, 0, 1, -20);
  cv::warpAffine(big, out, move, {width, height}, cv::INTER_LINEAR);
  return out;
}

TEST(Bounds, OfADropAreAmongItsFactsAndOfNoOther) {
  const auto bounds = [](const std::string& id, const std::vector<cv::Mat>& lumas,
                         const json& options = json::object()) {
    return judge(id, video(lumas), options).facts.value("bounds", json());
  };
  EXPECT_EQ(bounds("filter.brightness", {grey(5)}),
            json::parse(R"({"filter.brightness": {"at_least": 0.04}})"));
  EXPECT_EQ(bounds("filter.brightness", {grey(250)}),
            json::parse(R"({"filter.brightness": {"at_most": 0.95}})"));
  EXPECT_EQ(bounds("filter.black", {grey(0)}), json::parse(R"({"filter.black": {"at_most": 0.33}})"));
  EXPECT_EQ(bounds("filter.blur", {grey(90)}, {{"at_least", 7.0}}),
            json::parse(R"({"filter.blur": {"at_least": 7.0}})"));
  EXPECT_EQ(bounds("filter.blur", {texture(0)}, {{"at_most", 5.0}}),
            json::parse(R"({"filter.blur": {"at_most": 5.0}})"));
  EXPECT_EQ(bounds("filter.flow", {grey(90), grey(90)}),
            json::parse(R"({"filter.flow": {"at_least": 0.002}})"));
  EXPECT_EQ(bounds("filter.flow", {grey(90), grey(90)}, {{"at_least", 0.0}, {"p10_at_least", 0.5}}),
            json::parse(R"({"filter.flow.p10": {"at_least": 0.5}})"));
  EXPECT_EQ(bounds("filter.brightness", {grey(128)}), json());
  EXPECT_EQ(bounds("filter.brightness", {grey(5)}, {{"mode", "score"}}), json());
}

TEST(Brightness, IsTheMeanOfTheFrames) {
  EXPECT_NEAR(score("filter.brightness", {grey(51), grey(102)}), 0.3, 1e-12);
  EXPECT_NEAR(score("filter.brightness", {grey(51), grey(102)}, {{"reduce", "min"}}), 0.2, 1e-12);
  EXPECT_NEAR(score("filter.brightness", {grey(51), grey(102)}, {{"reduce", "max"}}), 0.4, 1e-12);
  const Judged dark = judge("filter.brightness", video({grey(5)})),
               bright = judge("filter.brightness", video({grey(250)}));
  EXPECT_EQ(dark.rule, "filter.brightness");
  EXPECT_NEAR(dark.score, 5 / 255.0, 1e-12);
  EXPECT_EQ(bright.rule, "filter.brightness");
  EXPECT_EQ(judge("filter.brightness", video({grey(128)})).rule, "");
}

// One bright pixel on black: the Laplacian is -4v there, v at four neighbours, 0 elsewhere and in sum.
TEST(Blur, IsTheVarianceOfTheLaplacian) {
  cv::Mat dot = grey(0, 10, 8);
  dot.at<uint8_t>(4, 5) = 100;
  EXPECT_NEAR(score("filter.blur", {dot}), 20.0 * 100 * 100 / 80, 1e-9);
  EXPECT_EQ(judge("filter.blur", video({grey(99)})).rule, "filter.blur");
  EXPECT_EQ(judge("filter.blur", video({texture(0)})).rule, "");
}

TEST(Black, CountsFramesWithEnoughBlackPixels) {
  cv::Mat nearly = grey(25);  // 0.02 of 64 x 48 is 61.44 pixels
  nearly.rowRange(0, 1).colRange(0, 61) = 255;
  cv::Mat not_enough = nearly.clone();
  not_enough.at<uint8_t>(1, 0) = 255;
  EXPECT_EQ(score("filter.black", {nearly, not_enough, grey(26), grey(200)}), 0.25);
  EXPECT_EQ(judge("filter.black", video({grey(0), grey(200)})).rule, "filter.black");
  EXPECT_EQ(judge("filter.black", video({grey(0), grey(200), grey(200), grey(200)})).rule, "");
}

TEST(Black, APixelIsBlackUpToItsLuma) {
  EXPECT_EQ(score("filter.black", {grey(50), grey(200)}), 0);
  EXPECT_EQ(score("filter.black", {grey(50), grey(200)}, {{"pixel", 0.2}}), 0.5);
}

TEST(Black, AFrameIsBlackFromItsShareOfBlackPixelsOn) {
  cv::Mat half = grey(0);
  half.rowRange(0, 24) = 255;
  EXPECT_EQ(score("filter.black", {half, grey(200)}), 0);
  EXPECT_EQ(score("filter.black", {half, grey(200)}, {{"picture", 0.51}}), 0);
  EXPECT_EQ(score("filter.black", {half, grey(200)}, {{"picture", 0.5}}), 0.5);
}

// 0.001 of 256 levels is 0.256: one level on a quarter of the pixels is below it, on a third above it.
TEST(Frozen, ComparesWithWhereTheFreezeBegan) {
  cv::Mat quarter = grey(100), third = grey(100), half = grey(100);
  quarter.rowRange(0, 12) += 1;
  third.rowRange(0, 16) += 1;
  half.rowRange(0, 24) += 1;
  EXPECT_EQ(score("filter.frozen", {grey(100), quarter, grey(100)}), 1);
  EXPECT_EQ(score("filter.frozen", {grey(100), third}), 0);
  EXPECT_EQ(score("filter.frozen", {grey(100), quarter, half, half}),
            2 / 3.0);  // a drift ends the freeze once
  EXPECT_EQ(score("filter.frozen", {grey(100), quarter}, {{"noise", 0.0009}}), 0) << "0.25 of 255 is more";
  EXPECT_EQ(score("filter.frozen", {grey(100), third}, {{"noise", 0.0014}}), 1);
  EXPECT_EQ(score("filter.frozen", {grey(100)}), 0);
  EXPECT_EQ(judge("filter.frozen", video({grey(100), grey(100)})).rule, "filter.frozen");
}

// A textured picture inside black bars.
cv::Mat boxed(const cv::Rect& inside, double shift = 0, double gain = 1) {
  cv::Mat out = grey(0, 320, 180);
  cv::Mat(texture(shift) * gain + 10)(inside).copyTo(out(inside));
  return out;
}

TEST(Letterbox, FindsTheBarsOfEverySide) {
  const cv::Rect pictures[] = {
      {0, 22, 320, 136}, {40, 0, 240, 180}, {110, 0, 101, 180}, {0, 0, 320, 140}, {30, 20, 250, 130}};
  for (const auto& inside : pictures) {
    const Bars bars = find_bars(3, [&](int64_t i) { return boxed(inside, 7.0 * static_cast<double>(i)); });
    EXPECT_EQ(cv::Rect(bars.left, bars.top, 320 - bars.left - bars.right, 180 - bars.top - bars.bottom),
              inside);
  }
}

TEST(Letterbox, SubtitlesInABarAndDarkFramesDoNotMoveIt) {
  const cv::Rect inside(0, 22, 320, 136);
  const Bars bars = find_bars(4, [&](int64_t i) {
    cv::Mat frame = i == 3 ? boxed(inside, 0, 1) : boxed(inside, 0, 0.05);
    for (int x = 60; x < 260; x += 4) frame(cv::Rect(x, 163, 2, 12)) = 250;  // letters
    return frame;
  });
  EXPECT_EQ(bars.top, 22);
  EXPECT_EQ(bars.bottom, 22);
}

TEST(Letterbox, ANightSkyIsNoBar) {
  const auto sky = [](int64_t) {
    cv::Mat out(180, 320, CV_8U);
    for (int y = 0; y < 180; ++y) out.row(y) = cv::Scalar(y);
    return out;
  };
  const Bars bars = find_bars(2, sky), none = find_bars(2, [](int64_t) { return grey(3, 320, 180); });
  EXPECT_EQ(bars.top + bars.bottom + bars.left + bars.right, 0);
  EXPECT_EQ(none.top + none.bottom + none.left + none.right, 0);
}

TEST(Letterbox, CropIsInTheVideosPixelsAndEven) {
  const std::vector<cv::Mat> frames(2, boxed({0, 22, 320, 137}));  // bars of 22 and 21
  const auto crop = [&](json facts) {
    return judge("filter.letterbox", video(frames, std::move(facts))).facts.at("crop");
  };
  EXPECT_EQ(crop({{"width", 320}, {"height", 180}}),
            (json{{"x", 0}, {"y", 22}, {"width", 320}, {"height", 136}}));
  EXPECT_EQ(crop({{"width", 1920}, {"height", 1080}}),
            (json{{"x", 0}, {"y", 132}, {"width", 1920}, {"height", 822}}));
  EXPECT_EQ(crop({{"width", 180}, {"height", 320}, {"rotation", 90}}),
            crop({{"width", 320}, {"height", 180}}));
  const json size{{"width", 320}, {"height", 180}};
  EXPECT_EQ(judge("filter.letterbox", video(frames, size), {{"mode", "on"}}).facts.at("crop"), crop(size));
  EXPECT_EQ(judge("filter.letterbox", video(frames), {{"mode", "filter"}}).rule, "filter.letterbox");
  EXPECT_NEAR(score("filter.letterbox", frames), 43.0 / 180, 1e-12);
  EXPECT_FALSE(judge("filter.letterbox", video({texture(0)}, {{"width", 320}, {"height", 180}}))
                   .facts.contains("crop"));
  EXPECT_THAT(error_of("filter.letterbox", video(frames)), HasSubstr("video.probe"));
}

// A bar ends inside a line of the smaller frames: that line is removed, so that no bar remains.
TEST(Letterbox, AScaledDownEdgeLosesALineOfPictureNotOfBar) {
  cv::Mat big = grey(0, 960, 540), small;
  big.rowRange(68, 540) = 180;
  cv::resize(big, small, {320, 180}, 0, 0, cv::INTER_AREA);
  const Bars bars = find_bars(1, [&](int64_t) { return small; });
  EXPECT_EQ(picture_inside(bars, small.size(), big.size()).y, 70);
}

TEST(Flow, IsThePansSpeed) {
  const double diagonal = std::hypot(320, 180);
  for (const double shift : {1.0, 3.0, 6.0}) {
    const double pan = score("filter.flow", {texture(0), texture(shift), texture(2 * shift)});
    EXPECT_NEAR(pan, shift / diagonal, 0.1 * shift / diagonal) << shift;
  }
  EXPECT_NEAR(score("filter.flow", {texture(0), texture(0)}), 0, 1e-4);
  EXPECT_EQ(score("filter.flow", {texture(0)}), 0);
  EXPECT_EQ(judge("filter.flow", video({texture(0), texture(0)})).rule, "filter.flow");
}

TEST(Flow, IsASecondWhereverTheTimesComeFrom) {
  const std::vector<cv::Mat> frames{texture(0), texture(4)};
  const auto flow = [&](const json& facts, double fps) {
    return judge("filter.flow", video(frames, facts), {{"mode", "score"}, {"fps", fps}}).noted("filter.flow");
  };
  const double second = flow(json::object(), 0);
  EXPECT_NEAR(flow({{"frames_at", {5.0, 5.5}}}, 0), 2 * second, 1e-9);
  EXPECT_NEAR(flow({{"frames_at", nullptr}}, 4), 4 * second, 1e-9);
  EXPECT_THAT(error_of("filter.flow", video(frames, {{"frames_at", nullptr}})), HasSubstr("set fps"));
}

// Half the picture moves: a locked camera, which only the 10th percentile detects.
TEST(Flow, TenthPercentileTellsALockedCamera) {
  std::vector<cv::Mat> frames{texture(0), texture(4)};
  frames[0].colRange(0, 160).copyTo(frames[1].colRange(0, 160));
  EXPECT_EQ(judge("filter.flow", video(frames), {{"p10_at_least", 0.001}}).rule, "filter.flow.p10");
  EXPECT_EQ(judge("filter.flow", video({texture(0), texture(4)}), {{"p10_at_least", 0.001}}).rule, "");
}

cv::Mat titled(cv::Mat picture, const std::string& words) {
  cv::putText(picture, words, {20, 150}, cv::FONT_HERSHEY_SIMPLEX, 0.7, 0, 4, cv::LINE_AA);
  cv::putText(picture, words, {20, 150}, cv::FONT_HERSHEY_SIMPLEX, 0.7, 255, 2, cv::LINE_AA);
  return picture;
}

TEST(Text, IsTheShareThatLinesCover) {
  std::vector<cv::Mat> plain, text;
  for (int i = 0; i < 4; ++i) {
    plain.push_back(texture(5 * i));
    text.push_back(titled(texture(5 * i), "SUBSCRIBE TO THIS"));
  }
  const cv::Size line = cv::getTextSize("SUBSCRIBE TO THIS", cv::FONT_HERSHEY_SIMPLEX, 0.7, 2, nullptr);
  EXPECT_LT(score("filter.text", plain), 0.01);
  EXPECT_NEAR(score("filter.text", text), line.area() / (320.0 * 180), 0.5 * line.area() / (320.0 * 180));
  EXPECT_EQ(judge("filter.text", video(text)).rule, "filter.text");
  EXPECT_EQ(judge("filter.text", video(plain)).rule, "");
}

TEST(Text, LastsSoLongAndStandsOutSoFar) {
  std::vector<cv::Mat> once(4, texture(0));
  once[1] = titled(texture(0), "SUBSCRIBE TO THIS");
  EXPECT_LT(score("filter.text", once, {{"reduce", "max"}}), 0.01);
  EXPECT_GT(score("filter.text", once, {{"reduce", "max"}, {"lasting", 1}}), 0.02);
  cv::Mat faint = grey(60, 320, 180);
  cv::putText(faint, "SUBSCRIBE TO THIS", {20, 150}, cv::FONT_HERSHEY_SIMPLEX, 0.7, 110, 2, cv::LINE_AA);
  EXPECT_LT(score("filter.text", {faint, faint, faint}), 0.01);
  EXPECT_GT(score("filter.text", {faint, faint, faint}, {{"contrast", 20}}), 0.02);
}

TEST(Facts, BoundsAnyNumberByItsName) {
  const json facts{
      {"height", 480}, {"scores", {{"filter.blur", 7.5}}}, {"video", {{"fps", 25.0}}}, {"codec", "h264"}};
  const auto rule = [&](const json& options) {
    return judge("filter.facts", video({grey(0)}, facts), options).rule;
  };
  EXPECT_EQ(rule({{"fact", "height"}, {"at_least", 480}, {"at_most", 480}}), "");
  EXPECT_EQ(rule({{"fact", "height"}, {"at_least", 720}}), "filter.facts.height");
  EXPECT_EQ(rule({{"fact", "height"}, {"at_least", 720}, {"mode", "score"}}), "");
  EXPECT_EQ(rule({{"fact", "scores.filter.blur"}, {"at_most", 7}}), "filter.facts.scores.filter.blur");
  EXPECT_EQ(rule({{"fact", "video.fps"}, {"at_least", 26}}), "filter.facts.video.fps");
  EXPECT_EQ(rule({{"fact", "codec"}, {"missing", "keep"}}), "");
  for (const auto& [text, number] : {std::pair{"7", true},
                                     {" 7.0e0\t", true},
                                     {"-7", true},
                                     {"", false},
                                     {"7 x", false},
                                     {"nan", false},
                                     {"1e999", false},
                                     {"0x8", false}}) {
    const auto rated = video({grey(0)}, {{"user", {{"rating", text}}}});  // as from a CSV
    const json options{{"fact", "user.rating"}, {"at_most", 7.5}, {"at_least", 6.5}};
    if (number) {
      EXPECT_EQ(judge("filter.facts", rated, options).rule, text[0] == '-' ? "filter.facts.user.rating" : "")
          << text;
    } else {
      EXPECT_THAT(error_of("filter.facts", rated, options), HasSubstr("no number 'user.rating'")) << text;
    }
  }
  EXPECT_THAT(error_of("filter.facts", video({grey(0)}, facts), {{"fact", "width"}}), HasSubstr("height"));
  EXPECT_THAT(error_of("filter.facts", video({grey(0)}, facts),
                       {{"fact", "height"}, {"at_least", 2}, {"at_most", 1}}),
              HasSubstr("above at_most"));
}

const char* const kOfFrames[] = {"filter.brightness", "filter.blur", "filter.black", "filter.frozen",
                                 "filter.letterbox",  "filter.flow", "filter.text"};

Sample with_tensor(std::vector<int64_t> shape, size_t bytes, uint8_t code = KINORA_DL_UINT,
                   uint8_t bits = 8) {
  Sample out("made");
  out.set("json", R"({"width":64,"height":48,"frames_at":[0]})");
  out.set_tensor("frames", std::vector<uint8_t>(bytes, 9), std::move(shape), code, bits);
  return out;
}

TEST(Hostile, TensorsThatAreNoFramesFailTheSample) {
  for (const char* id : kOfFrames) {
    EXPECT_THAT(error_of(id, Sample("made")), HasSubstr("sample_fps")) << id;
    EXPECT_THAT(error_of(id, with_tensor({0, 4, 4, 3}, 1)), HasSubstr("frames are empty")) << id;
    EXPECT_THAT(error_of(id, with_tensor({1, 0, 4, 3}, 1)), HasSubstr("frames are empty")) << id;
    EXPECT_THAT(error_of(id, with_tensor({1, 4, 4, 1}, 16)), HasSubstr("[T, H, W, 3]")) << id;
    EXPECT_THAT(error_of(id, with_tensor({4, 4, 3}, 48)), HasSubstr("[T, H, W, 3]")) << id;
    EXPECT_THAT(error_of(id, with_tensor({1, 4, 4, 3}, 192, KINORA_DL_FLOAT, 32)), HasSubstr("[T, H, W, 3]"))
        << id;
    EXPECT_THAT(error_of(id, with_tensor({1, 1, 40000, 3}, 120000)), HasSubstr("larger")) << id;
    Sample odd = with_tensor({1, 1, 1, 3}, 3);
    odd.set("json", "[1,2]");
    EXPECT_THAT(error_of(id, odd), HasSubstr("JSON object")) << id;
  }
}

TEST(Hostile, SmallAndNarrowPicturesHaveFiniteScores) {
  const std::pair<int, int> sizes[] = {{1, 1}, {2, 1}, {1, 3}, {7, 5}, {3000, 1}, {1, 3000}, {32768, 2}};
  for (const char* id : kOfFrames)
    for (const auto& [width, height] : sizes) {
      const size_t bytes = static_cast<size_t>(width) * height * 3;
      if (std::string(id) == "filter.flow") {
        EXPECT_THAT(error_of(id, with_tensor({1, height, width, 3}, bytes)), HasSubstr("too small"));
        continue;
      }
      const Judged j = judge(id, with_tensor({1, height, width, 3}, bytes), {{"mode", "score"}});
      EXPECT_TRUE(std::isfinite(j.noted(id))) << id << " " << width << "x" << height;
    }
}

// Nearly flat frames, on which searches that divide by the squared gradient diverge.
TEST(Hostile, FlatPicturesHaveNoFlow) {
  std::vector<cv::Mat> frames;
  cv::RNG random(5);
  for (int i = 0; i < 4; ++i) {
    frames.push_back(grey(247, 640, 360));
    for (int n = 0; n < 12; ++n)
      frames.back()(cv::Rect(random.uniform(0, 600), random.uniform(0, 330), 30, 9)) =
          random.uniform(246, 252);
  }
  EXPECT_LE(score("filter.flow", frames), 1);
}

TEST(Hostile, TimesThatDoNotRiseFailTheSample) {
  const std::vector<cv::Mat> two(2, texture(0));
  for (const auto& times : {json::array({0}), json::array({1, 1}), json::array({2, 1}), json::array({0, "x"}),
                            json::array({0, nullptr}), json::array({0, 1, 2})})
    EXPECT_THAT(error_of("filter.flow", video(two, {{"frames_at", times}})), HasSubstr("frames_at")) << times;
}

}  // namespace
}  // namespace kinora::filters
