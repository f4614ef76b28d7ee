// Decisions that the stages make before any request; tests/faults/endpoint.py tests them against servers.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answers.hpp"
#include "caption_stage.cpp"
#include "embed_stage.cpp"
#include "enhance_stage.cpp"
#include "filter_stage.cpp"
#include "kinora/testing.hpp"
#include "ocr_stage.cpp"
#include "tests/support/full_port.hpp"

namespace kinora::endpoint {
namespace {

using ::testing::HasSubstr;

// No server listens at this address, and one attempt suffices.
template <class Stage>
typename Stage::Options nobody() {
  typename Stage::Options o;
  o.base_url = "http://127.0.0.1:9/v1";
  o.retries = 0;
  return o;
}

template <class Stage>
std::string refusal(const typename Stage::Options& o) {
  kinora::testing::start();
  try {
    const Stage stage(o);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Sample clip(int64_t frames, const char* json = nullptr, const char* txt = nullptr,
            const std::string& key = "clip") {
  Sample s(key);
  if (frames > 0)
    s.set_tensor("frames", std::vector<uint8_t>(static_cast<size_t>(frames) * 4 * 6 * 3), {frames, 4, 6, 3},
                 KINORA_DL_UINT, 8);
  if (json) s.set("json", json);
  if (txt) s.set("txt", txt);
  return s;
}

template <class S>
kinora::testing::Collector processed(const typename S::Options& o, const Sample& in,
                                     std::string* error = nullptr) {
  kinora::testing::Collector out;
  const kinora::testing::Run run;
  try {
    S(o).process(in, out.emit(), run);
  } catch (const Error& e) {
    if (error) *error = e.what();
  }
  if (error && !out.failed.empty()) *error = out.failed.back().reason;
  return out;
}

TEST(EndpointStages, TheUsersCaptionWinsWithoutAnyRequest) {
  kinora::testing::start();
  auto o = nobody<CaptionEndpoint>();
  for (const char* json :
       {R"({"caption":{"by":"user"}})", R"({"fps":24})", static_cast<const char*>(nullptr)}) {
    const auto out = processed<CaptionEndpoint>(o, clip(8, json, "mine"));
    ASSERT_EQ(out.emitted.size(), 1u);
    EXPECT_EQ(out.emitted[0].text("txt"), "mine");
    EXPECT_EQ(processed<CaptionEnhance>(nobody<CaptionEnhance>(), clip(8, json, "mine")).emitted.size(), 1u);
  }
  std::string error;
  EXPECT_TRUE(
      processed<CaptionEndpoint>(o, clip(8, R"({"caption":{"by":"caption.describe"}})", "measured"), &error)
          .emitted.empty());
  EXPECT_THAT(error, HasSubstr("http://127.0.0.1:9/v1/chat/completions"));
  EXPECT_THAT(
      error,
      ::testing::EndsWith(
          "; start the server or set base_url of caption.endpoint, then run again with --retry-failed"));
  o.replace_user = true;
  EXPECT_TRUE(
      processed<CaptionEndpoint>(o, clip(8, R"({"caption":{"by":"user"}})", "mine"), &error).emitted.empty());
}

TEST(EndpointStages, AServerThatIsNeverThereEndsTheRunAfterEightSamples) {
  kinora::testing::start();
  for (const char* on_error : {"fail", "keep"}) {
    auto o = nobody<CaptionEndpoint>();
    o.on_error = on_error;
    CaptionEndpoint stage(o);
    const kinora::testing::Run run;
    kinora::testing::Collector out;
    const auto process = [&](const std::string& key) {
      stage.process(clip(8, R"({"fps":24})", nullptr, key), out.emit(), run);
    };
    for (int n = 0; n < 20; ++n) process("again");  // a sample counts once, however often it is tried
    for (int n = 1; n < 7; ++n) process("clip" + std::to_string(n));
    EXPECT_EQ(out.failed.size() + out.emitted.size(), 26u);
    std::string why;
    for (int n = 7; n < 10; ++n) try {
        process("clip" + std::to_string(n));
        ADD_FAILURE() << on_error << " " << n;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), KINORA_ERROR_REFUSED);
        why = e.what();
      }
    EXPECT_THAT(
        why, HasSubstr(
                 "the first 8 samples, and no request was ever answered; start the server or set base_url of "
                 "caption.endpoint, then run again with --retry-failed: finished samples are kept"));
    EXPECT_THAT(why, HasSubstr("http://127.0.0.1:9/v1/chat/completions"));
  }
}

TEST(EndpointStages, OnlyTheFirstSampleWaitsForAServerThatIsNeverThere) {
  kinora::testing::start();
  auto o = nobody<CaptionEndpoint>();
  o.retries = 2;
  o.backoff = 0.01;
  o.model = "waits";  // an account of its own
  CaptionEndpoint stage(o);
  const kinora::testing::Run run;
  kinora::testing::Collector out;
  for (const char* key : {"first", "second"})
    stage.process(clip(8, R"({"fps":24})", nullptr, key), out.emit(), run);
  ASSERT_EQ(out.failed.size(), 2u);
  EXPECT_THAT(out.failed[0].reason, HasSubstr("(3 attempts)"));
  EXPECT_THAT(out.failed[1].reason, ::testing::Not(HasSubstr("attempts")));
}

TEST(EndpointStages, AConnectionThatIsNotMadeEndsAtItsLimit) {
  kinora::testing::start();
  const test::FullPort server;
  auto o = nobody<CaptionEndpoint>();
  o.base_url = server.url();
  o.connect_timeout = 0.3;
  std::string error;
  const auto start = std::chrono::steady_clock::now();
  processed<CaptionEndpoint>(o, clip(8, R"({"fps":24})"), &error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_THAT(error, HasSubstr("Timeout was reached"));
}

TEST(EndpointStages, SayWhatIsMissingAndHowToGetIt) {
  kinora::testing::start();
  std::string error;
  processed<CaptionEndpoint>(nobody<CaptionEndpoint>(), clip(0), &error);
  EXPECT_THAT(error, HasSubstr("set sample_fps of video.clips or clip.transcode for clips"));
  processed<CaptionEndpoint>(nobody<CaptionEndpoint>(), clip(3), &error);
  EXPECT_THAT(error, HasSubstr("3 frames is too short"));
  processed<CaptionEndpoint>(nobody<CaptionEndpoint>(), clip(8, R"({"frames_at":[0,1]})"), &error);
  EXPECT_THAT(error, HasSubstr("frames_at"));
  processed<CaptionEnhance>(nobody<CaptionEnhance>(), clip(0), &error);
  EXPECT_THAT(error, HasSubstr("put a caption stage before"));
  processed<EmbedEndpoint>(nobody<EmbedEndpoint>(), clip(0), &error);
  EXPECT_THAT(error, HasSubstr("put a caption stage before"));
}

TEST(EndpointStages, WithOnErrorKeepTheSampleGoesOnAndItsFactsSayWhy) {
  kinora::testing::start();
  auto o = nobody<CaptionEndpoint>();
  o.on_error = "keep";
  const auto out = processed<CaptionEndpoint>(o, clip(8, R"({"fps":24})"));
  ASSERT_EQ(out.emitted.size(), 1u);
  EXPECT_FALSE(out.emitted[0].text("txt").has_value());
  const Json facts = Json::parse(*out.emitted[0].text("json"));
  EXPECT_EQ(facts.at("fps"), 24);
  EXPECT_THAT(facts.at("errors").at("caption.endpoint").get<std::string>(), HasSubstr("127.0.0.1:9"));
}

TEST(EndpointStages, RefuseOptionsThatCannotBe) {
  auto o = nobody<CaptionEndpoint>();
  const auto with_url = [&](const char* url) {
    o.base_url = url;
    return refusal<CaptionEndpoint>(o);
  };
  EXPECT_THAT(with_url("https://user:secret@example.org/v1"), HasSubstr("api_key_env"));
  EXPECT_THAT(with_url("https://user:secret@example.org/v1"), ::testing::Not(HasSubstr("secret@")));
  EXPECT_THAT(with_url("ftp://example.org/v1"), HasSubstr("http or https"));
  EXPECT_THAT(with_url("file:///etc/passwd"), HasSubstr("http or https"));
  EXPECT_THAT(with_url("https://example.org/v1?key=1"), HasSubstr("after its path"));
  EXPECT_THAT(with_url("not a url"), HasSubstr("not an address"));
  o = nobody<CaptionEndpoint>();
  o.api_key_env = "KINORA_TEST_UNSET_KEY";
  EXPECT_THAT(refusal<CaptionEndpoint>(o), HasSubstr("KINORA_TEST_UNSET_KEY"));
  setenv("KINORA_TEST_KEY", "two\r\nlines", 1);
  o.api_key_env = "KINORA_TEST_KEY";
  EXPECT_THAT(refusal<CaptionEndpoint>(o), HasSubstr("line break"));
  o = nobody<CaptionEndpoint>();
  o.ca_file = "/nowhere/ca.pem";
  EXPECT_THAT(refusal<CaptionEndpoint>(o), HasSubstr("/nowhere/ca.pem"));
  o = nobody<CaptionEndpoint>();
  o.extra = R"({"model":"other"})";
  EXPECT_THAT(refusal<CaptionEndpoint>(o), HasSubstr("'model'"));
  o.extra = "[]";
  EXPECT_THAT(refusal<CaptionEndpoint>(o), HasSubstr("extra is not a JSON object"));
  auto enhance = nobody<CaptionEnhance>();
  enhance.prompt = "{caption";
  EXPECT_THAT(refusal<CaptionEnhance>(enhance), HasSubstr("character 1"));
  auto embed = nobody<EmbedEndpoint>();
  embed.name = "a/b";
  EXPECT_THAT(refusal<EmbedEndpoint>(embed), HasSubstr("slash"));
}

TEST(Verdicts, TheListsOverruleTheModel) {
  EXPECT_TRUE(verdict_of(Json::parse(R"({"keep":true,"reason":"r","labels":["Boat"]})")).keep);
  EXPECT_EQ(verdict_of(Json::parse(R"({"keep":true,"labels":["Boat"]})")).labels.front(), "boat");
  for (const char* odd :
       {"{}", R"({"keep":"yes"})", R"({"keep":true,"labels":"boat"})", R"({"keep":true,"labels":[1]})"})
    EXPECT_THROW(verdict_of(Json::parse(odd)), Error) << odd;
}

TEST(Ocr, ReadsRegionsAndRefusesWhatIsNone) {
  const TextRegions read = text_regions(
      Json::parse(R"({"regions":[{"text":"a","box":[0,0,500,100]},{"text":"b","box":[0,50,500,150]}]})"),
      1000);
  EXPECT_DOUBLE_EQ(read.share, 0.075);
  EXPECT_EQ(read.texts, (std::vector<std::string>{"a", "b"}));
  for (const char* odd : {"{}", R"({"regions":{}})", R"({"regions":[1]})", R"({"regions":[{"text":"a"}]})",
                          R"({"regions":[{"box":[1,2,3]}]})", R"({"regions":[{"box":[1,2,3,"4"]}]})"})
    EXPECT_THROW(text_regions(Json::parse(odd), 1000), Error) << odd;
}

}  // namespace
}  // namespace kinora::endpoint
