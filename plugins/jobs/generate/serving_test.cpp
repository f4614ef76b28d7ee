// The process of a model of `kinora serve`, as its server sees it: at the other end of a socket, but in this process.
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "plugins/jobs/generate/about_video.hpp"
#include "plugins/jobs/generate/beats.hpp"
#include "plugins/jobs/generate/generate_job_testing.hpp"
#include "plugins/jobs/generate/json_lines.hpp"

namespace kinora::core::generate_job {
namespace serving_test {

using testing::HasSubstr;

std::array<int, 2> socket_pair() {
  std::array<int, 2> out{-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out.data()), 0);
  return out;
}

class Process {
 public:
  explicit Process(const ScratchRun& run) : run_(run), ends_(socket_pair()), lines_(ends_[0]) {
    setenv("KINORA_REQUESTS", std::to_string(ends_[1]).c_str(), 1);
    setenv("KINORA_BEATS", std::to_string(beats_.pipe()).c_str(), 1);
    thread_ = std::jthread([this] {
      const std::string why = test::refusal([this] {
        JobContext context = run_.context("film");
        test::run_job(context);
      });
      EXPECT_THAT(why, HasSubstr("the requests have ended"));
      close(ends_[1]);
    });
    ready_ = next("ready");
    EXPECT_TRUE(ready_.contains("ready"));
    for (const char* variable : {"KINORA_REQUESTS", "KINORA_BEATS"}) unsetenv(variable);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    shutdown(ends_[0], SHUT_RDWR);
    thread_.join();
    close(ends_[0]);
  }

  const json& said_ready() const { return ready_; }
  double silence() { return beats_.silence(); }
  void send(const json& message) const { send_all(ends_[0], json_line(message)); }
  // The next message with one of these members; null: the process is gone.
  json next(const std::string& member, const std::string& other = "") {
    while (auto message = lines_.next())
      if (message->contains(member) || message->contains(other)) return *message;
    return {};
  }
  json checked(const json& fields) {
    send({{"check", 1}, {"fields", fields}});
    return next("checked");
  }
  // A message that begins a video in a folder of this name, which is made unless it is "none".
  json video(const std::string& id, const json& fields) {
    const fs::path folder = run_.folder() / id;
    if (id != "none") fs::create_directories(folder);
    return {{"make", id}, {"folder", folder.string()}, {"fields", checked(fields).at("fields")}};
  }
  at::Tensor frames(const std::string& id) const {
    return decoded(read_bytes(run_.folder() / id / "video.mp4"), json::object()).to(at::kDouble);
  }

 private:
  const ScratchRun& run_;
  const std::array<int, 2> ends_;
  HeardBeats beats_;
  JsonLines lines_;
  json ready_;
  std::jthread thread_;
};

TEST(Serving, AProcessBeatsWithoutBeingAsked) {
  const auto run = ready("prompts = ['sea']");
  Process process(*run);
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto wait_for = [&](auto is_so) {
    while (!is_so() && std::chrono::steady_clock::now() < late)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::chrono::steady_clock::now() < late;
  };
  EXPECT_TRUE(wait_for([&] { return process.silence() > 0; })) << "it has begun to beat";
  EXPECT_TRUE(wait_for([&] { return process.silence() == 0; })) << "it beats again";
}

TEST(Serving, AModelSaysWhatItsVideosBeginWithAndWhatItMakes) {
  const json in = json::array({"text", "image", "video"});
  const auto videos = ready("prompts = ['sea']"), pictures = ready("prompts = ['sea']\nframes = 1");
  const Process of_videos(*videos);
  EXPECT_EQ(of_videos.said_ready().at("inputs"), in);
  EXPECT_EQ(of_videos.said_ready().at("outputs"), json::array({"video", "image"}));
  const Process of_pictures(*pictures);
  EXPECT_EQ(of_pictures.said_ready().at("outputs"), json::array({"image"}));
}

TEST(Serving, VideosOfOneShapeAreAlike) {
  const auto run = ready("prompts = ['sea']\nguidance = 2.0");
  Process process(*run);
  const auto alike = [&](const json& more) {
    json fields{{"prompt", "red sea"}, {"seed", 3}};
    fields.update(more);
    return process.checked(fields).at("alike").get<std::string>();
  };
  const std::string usual = alike(json::object());
  EXPECT_NE(usual, "");
  EXPECT_EQ(process.said_ready().at("makes_shots"), false);
  for (const auto& [name, value] : std::map<std::string, json>{
           {"prompt", "blue"}, {"seed", 4}, {"guidance_scale", 3.0}, {"negative_prompt", "red"}})
    EXPECT_EQ(alike(json::object({{name, value}})), usual) << name;
  for (const auto& [name, value] : std::map<std::string, json>{
           {"num_frames", 5}, {"steps", 2}, {"guidance_scale", 1.0}, {"height", 32}, {"fps", 7.0}}) {
    const std::string other = alike(json::object({{name, value}}));
    EXPECT_NE(other, usual) << name;
    EXPECT_NE(other, "") << name;
  }
  for (const char* given : {"image", "video"})
    EXPECT_EQ(alike(json::object({{given, "a file"}})), "") << given;
}

TEST(Serving, AnMp4TellsFilesByTheirNamesAndTextsAsTheyAre) {
  const json of_files{
      {"pipeline", "wan"}, {"image", "given_image"}, {"weights", json::array({"a.safetensors"})}},
      others{{"prompts", json::array({"/a/b"})}, {"negative", "/a"}, {"video", ""}, {"seed", 3}};
  json options{{"pipeline", "/home/x/wan"},
               {"image", "/home/x/runs/given_image"},
               {"weights", json::array({"/home/x/a.safetensors"})},
               {"loras", json::array({"{\"name\": \"a\", \"file\": \"/home/x/a\"}"})}};
  options.update(others);
  json expected = of_files;
  expected.update(others);
  const json told = without_folders({{"prompt", "/a/b"}, {"options", options}});
  EXPECT_EQ(told.at("options"), expected);
  EXPECT_EQ(told.at("prompt"), "/a/b");
}

TEST(Serving, AVideoMadeInChunksIsLikeNone) {
  const auto run = prepared({{"dit", "teacher_forcing = true\nchunk = 1"}, {"film", "prompts = ['sea']"}});
  encoded(*run);
  Process process(*run);
  EXPECT_EQ(process.checked({{"prompt", "red sea"}, {"seed", 3}}).at("alike"), "");
  EXPECT_EQ(process.said_ready().at("makes_shots"), true);
}

TEST(Serving, CutsTheEndOfShotsAtTheGivenLength) {
  const auto run = prepared({{"dit", "teacher_forcing = true\nchunk = 1"}, {"film", "prompts = ['sea']"}});
  encoded(*run);
  Process process(*run);
  json fields{{"shots", json::array({R"({"prompt": "red sea", "chunks": 3})"})}, {"seed", 3}};
  const int64_t whole = process.checked(fields).at("fields").at("num_frames");
  ASSERT_GT(whole, 3);
  fields["num_frames"] = whole + 1;
  EXPECT_THAT(process.checked(fields).value("error", ""), HasSubstr("frames of the shots"));
  for (const int64_t frames : {whole - 1, int64_t{2}}) {  // within the last chunk, and before it
    fields["num_frames"] = frames;
    process.send(process.video(fmt::format("cut-{}", frames), fields));
    const json end = process.next("done", "failed");
    ASSERT_TRUE(end.contains("done")) << end;
    EXPECT_EQ(end.at("done").at("num_frames"), frames);
  }
}

TEST(Serving, AnEditIsAsLongAsItsVideo) {
  const auto run = ready("prompts = ['sea']\nguidance = 2.0");
  Process process(*run);
  json fields{{"prompt", "red sea"}, {"seed", 3}, {"strength", 0.5}};
  EXPECT_THAT(process.checked(fields).value("error", ""), HasSubstr("give a video"));
  fields["input_reference"] = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  const json answer = process.checked(fields);
  ASSERT_TRUE(answer.contains("fields")) << answer;
  const json& edit = answer.at("fields");
  EXPECT_EQ(edit.at("fps"), 24.0);
  EXPECT_LE(edit.at("num_frames"), 125);
  EXPECT_GT(edit.at("num_frames"), 125 - 8) << "less than a latent frame is cut";
  fields["fps"] = 5;
  EXPECT_EQ(process.checked(fields).at("fields").at("fps"), 5);
}

// Each check decodes a video that does not say its length.
TEST(Serving, NoCancelWaitsForTheVideosOfChecks) {
  const auto run = ready("prompts = ['sea']\nguidance = 2.0");
  Process process(*run);
  process.send(process.video("endless", {{"prompt", "blue"}, {"seed", 4}, {"steps", 5000}}));
  ASSERT_TRUE(process.next("progress", "failed").contains("progress"));
  constexpr int kChecks = 60;
  for (int i = 0; i < kChecks; ++i) {
    const fs::path file = run->folder() / fmt::format("{}.ogv", i);
    fs::create_symlink(fs::path(KINORA_TEST_DATA) / "calais_1906.ogv", file);
    process.send({{"check", i}, {"fields", {{"prompt", "sea"}, {"seed", 3}, {"input_reference", file.string()}}}});
  }
  process.send({{"cancel", "endless"}});
  int checked = 0;
  while (checked < kChecks && process.next("checked", "failed").contains("checked")) ++checked;
  EXPECT_LT(checked, kChecks);
}

// One cannot be written, and one is cancelled when it has begun.
TEST(Serving, MakesABatchAsEachAloneWhateverBecomesOfOne) {
  const auto run = ready("prompts = ['sea']\nguidance = 2.0");
  Process process(*run);
  const json red{{"prompt", "red sea"}, {"seed", 3}}, blue{{"prompt", "blue"}, {"seed", 4}};
  json endless = blue;
  endless["steps"] = 5000;
  process.send(process.video("alone", red));
  ASSERT_EQ(process.next("done", "failed").value("video", ""), "alone");
  const json wanted = json::array({process.video("red", red), process.video("blue", blue),
                                   process.video("none", red), process.video("endless", endless)});
  process.send(json::object({{"batch", wanted}}));
  std::map<std::string, json> ends;
  for (bool is_cancelled = false; ends.size() < 4;) {
    const json message = process.next("video");
    ASSERT_TRUE(message.is_object()) << "the process is gone";
    const std::string id = message.at("video");
    if (!message.contains("progress")) {
      ends[id] = message;
    } else if (id == "endless" && !std::exchange(is_cancelled, true)) {
      process.send({{"cancel", id}});
    }
  }
  for (const char* id : {"red", "blue"}) {
    ASSERT_TRUE(ends.at(id).contains("done")) << ends.at(id);
    EXPECT_EQ(ends.at(id).at("done").at("num_frames"), kFrames);
  }
  EXPECT_THAT(ends.at("none").value("failed", ""), HasSubstr("live.mp4"));
  EXPECT_THAT(ends.at("endless").value("failed", ""), HasSubstr("cancelled"));
  const at::Tensor alone = process.frames("alone");
  const auto apart = [&](const std::string& id) {
    return (process.frames(id) - alone).abs().mean().item<double>();
  };
  EXPECT_LT(4 * apart("red"), apart("blue")) << "rounding and the codec alone are between them";
}

}  // namespace serving_test
}  // namespace kinora::core::generate_job
