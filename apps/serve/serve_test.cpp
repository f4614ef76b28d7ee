// The whole server over HTTP, with the model of fake_model_test.cpp.
#include <csignal>

#include "apps/serve/access.hpp"
#include "apps/serve/serve_testing.hpp"

namespace kinora::serve {
namespace serve_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Serve = ServeTest;

TEST_F(Serve, AsksForItsToken) {
  EXPECT_THAT(ask("GET /v1/videos", ""),
              AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Bearer"),
                    HasSubstr("\"authentication_error\"")));
  for (const char* wrong :
       {"Authorization: Bearer the token of this tesT\r\n", "Authorization: Bearer \r\n",
        "Authorization: the token of this test\r\n", "X-Api-Key: the token of this test\r\n"})
    EXPECT_THAT(ask("GET /v1/models", wrong), StartsWith("HTTP/1.1 401")) << wrong;
  EXPECT_THAT(ask("GET /v1/models"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"id\":\"m\"")));
  EXPECT_THAT(ask("GET /health", ""), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("x-request-id: req_")));
  EXPECT_THAT(ask("GET /health", "Origin: http://there\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET /health", "Origin: null\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET /health", "Origin: http://here\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Serve, GivesBrowsersThatOpenThePageACookie) {
  for (const char* wrong : {"GET /", "GET /?t=", "GET /?t=the+token+of+this+tesT", "GET /main.js",
                            "GET /v1/videos?t=the+token+of+this+test"})
    EXPECT_THAT(ask(wrong, ""), AllOf(StartsWith("HTTP/1.1 401"), Not(HasSubstr("Set-Cookie")))) << wrong;
  EXPECT_EQ(page_address("http://here/", "a b/1"), "http://here/?t=a%20b%2F1");
  const std::string page = ask("GET /?t=the%20token+of+this+test", "");
  ASSERT_THAT(page, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("; HttpOnly; SameSite=Strict\r\n"),
                          HasSubstr("Content-Security-Policy: default-src 'self'; media-src 'self' blob:; "),
                          HasSubstr("Content-Type: text/html"), HasSubstr("/main.js")));
  const std::string name = "Set-Cookie: kinora_serve_" + std::to_string(port_) + "=";
  const size_t at = page.find(name);
  ASSERT_NE(at, std::string::npos);
  const std::string cookie = page.substr(at + 4, page.find(';', at) - at - 4) + "\r\n",
                    ours = "Origin: http://here\r\n";
  const std::string text = R"({"prompt": "x"})", create = "POST /v1/videos";
  EXPECT_THAT(ask("GET /main.js", cookie), HasSubstr("Content-Type: text/javascript"));
  EXPECT_THAT(ask("GET /v1/videos", cookie), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("GET /v1/videos", cookie.substr(0, cookie.size() - 3) + "\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(create, cookie + kJson, text), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(create, cookie + kJson + "Origin: http://there\r\n", text), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(create, cookie + ours + "Content-Type: text/plain\r\n", text), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(body_of(ask("GET /v1/videos")).at("data"), json::array());
  const std::string answer = ask(create, cookie + ours + kJson, text);
  ASSERT_THAT(answer, StartsWith("HTTP/1.1 200"));
  const std::string one = "DELETE /v1/videos/" + body_of(answer).at("id").get<std::string>();
  EXPECT_THAT(ask(one, cookie), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(one, cookie + ours), StartsWith("HTTP/1.1 200"));
}

TEST_F(Serve, TellsTheModelsNoToken) {
  EXPECT_TRUE(fs::exists(folder_ / "models/m/pid"));
  EXPECT_FALSE(fs::exists(folder_ / "models/m/knows_a_token"));
}

TEST_F(Serve, ATokenOfLessRightOnlyReads) {
  const std::string id = make(kJson, R"({"prompt": "x"})").at("id"), one = "/v1/videos/" + id;
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  EXPECT_THAT(ask("GET /v1/videos"), Not(HasSubstr("x-kinora-access")));
  const std::string page = ask("GET /?t=" + kReadToken, "");
  const std::string name = "kinora_serve_" + std::to_string(port_) + "=";
  ASSERT_THAT(page, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("x-kinora-access: read\r\n"),
                          HasSubstr("Set-Cookie: " + name)));
  EXPECT_THAT(page, Not(HasSubstr(kReadToken)));
  EXPECT_THAT(ask("GET /?t=the+token+of+this+test", ""), HasSubstr("Set-Cookie: " + name))
      << "the address that was opened last decides";
  const size_t at = page.find(name);
  const std::string cookie = "Cookie: " + page.substr(at, page.find(';', at) - at) + "\r\n",
                    upgrade =
                        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                    live = "GET /v1/realtime/video", text = R"({"prompt": "x"})";
  const auto is_refused = AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("\"read_only\""));
  for (const std::string& who : {kReads, cookie + "Origin: http://here\r\n"}) {
    for (const std::string& line :
         {std::string("GET /main.js"), std::string("GET /v1/videos"), std::string("GET /v1/models"),
          std::string("GET /metrics"), "GET " + one, "GET " + one + "/content", "HEAD " + one + "/content",
          "GET " + one + "/content?live=1", "GET " + one + "/content?variant=thumbnail"})
      EXPECT_THAT(ask(line, who), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("x-kinora-access: read\r\n")))
          << line;
    for (const std::string& line :
         {std::string("POST /v1/videos"), "POST " + one + "/remix", std::string("POST /v1/videos/edits"),
          std::string("POST /v1/videos/extensions"), std::string("POST /v1/images/generations")})
      EXPECT_THAT(ask(line, who + kJson, text), is_refused) << line;
    EXPECT_THAT(ask("DELETE " + one, who), is_refused);
    EXPECT_THAT(ask(live, who + upgrade), is_refused);
  }
  EXPECT_THAT(ask(live, upgrade + "Sec-WebSocket-Protocol: kinora." + kReadToken + "\r\n"), is_refused);
  EXPECT_THAT(ask("GET /v1/videos", "Authorization: Bearer " + kReadToken + "x\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(body_of(ask("GET /v1/videos")).at("data").size(), 1U) << "nothing was made or deleted";
}

TEST_F(Serve, TellsTheSettingsThatMakeAVideoAgain) {
  const json shots =
      json::parse(R"([{"prompt": "a", "seconds": 1}, {"prompt": "b", "chunks": 2, "cut": false}])");
  const json video = make(kJson, json{{"shots", shots}, {"steps", 3}, {"guidance_scale", 1.5}}.dump());
  EXPECT_EQ(video.at("shots"), shots);
  EXPECT_EQ(video.at("steps"), 3);
  EXPECT_EQ(video.at("guidance_scale"), 1.5);
  EXPECT_EQ(video.at("num_frames"), 8);
  EXPECT_EQ(video.at("fps"), 8);
  EXPECT_FALSE(video.contains("negative_prompt"));
}

// As OpenAI's client repeats a request whose answer it did not get.
TEST_F(Serve, ARequestThatOpenAIsClientRepeatsIsOneVideo) {
  const auto id = [&](const std::string& attempt, const std::string& type, const std::string& body) {
    return body_of(ask("POST /v1/videos", kToken + type + "x-stainless-retry-count: " + attempt + "\r\n", body))
        .value("id", "");
  };
  const std::string body = R"({"prompt": "x"})";
  const std::string first = id("0", kJson, body);
  EXPECT_NE(first, "");
  EXPECT_EQ(id("1", kJson, body), first);
  EXPECT_EQ(id("2", kJson, R"({ "prompt": "x" })"), first);
  EXPECT_NE(id("1", kJson, R"({"prompt": "y"})"), first) << "another request";
  const std::string second = id("0", kJson, body);
  EXPECT_NE(second, first) << "no repetition";
  EXPECT_EQ(id("1", kJson, body), second);
  const auto form = [](const std::string& file) {
    return "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nx\r\n"
           "--b\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\n\r\n" +
           file + "\r\n--b--\r\n";
  };
  const std::string with_file = id("0", kForm, form("a picture"));
  EXPECT_EQ(id("1", kForm, form("a picture")), with_file);
  EXPECT_NE(id("1", kForm, form("a pictore")), with_file) << "another file";
  EXPECT_THAT(ask("DELETE /v1/videos/" + second), StartsWith("HTTP/1.1 200"));
  EXPECT_NE(id("1", kJson, body), second) << "it is gone";
}

TEST_F(Serve, ARemixOrAPictureThatOpenAIsClientRepeatsIsOneVideo) {
  const std::string id = make(kJson, R"({"prompt": "x"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  const auto answer = [&](const std::string& path, const std::string& attempt) {
    return body_of(ask("POST " + path, kToken + kJson + "x-stainless-retry-count: " + attempt + "\r\n",
                       R"({"prompt": "a"})"));
  };
  const auto videos = [&] { return body_of(ask("GET /v1/videos")).at("data").size(); };
  const std::string remix = "/v1/videos/" + id + "/remix", picture = "/v1/images/generations";
  const json first = answer(remix, "0");
  EXPECT_EQ(answer(remix, "1").value("id", ""), first.at("id"));
  EXPECT_EQ(videos(), 2U);
  const json made = answer(picture, "0");
  EXPECT_EQ(made.at("data").size(), 1U);
  EXPECT_EQ(answer(picture, "1"), made);
  EXPECT_EQ(videos(), 3U);
  EXPECT_NE(answer(remix, "0").value("id", ""), first.at("id")) << "no repetition";
  EXPECT_EQ(videos(), 4U);
}

TEST_F(Serve, AFormAndJsonMakeTheSame) {
  const auto part = [](const std::string& name, const std::string& value) {
    return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  };
  const std::string file = part("input_reference\"; filename=\"a.png", "a\r\n--picture");
  json form =
      make(kForm, part("prompt", "x") + part("seed", "7") + part("size", "32x16") + file + "--b--\r\n");
  json text = make(kJson, R"({"prompt": "x", "seed": 7, "size": "32x16"})");
  EXPECT_EQ(form.at("size"), "32x16");
  EXPECT_EQ(form.at("seed"), 7);
  EXPECT_EQ(bytes_of(folder_of(form.at("id")) / "given_input_reference"), "a\r\n--picture");
  for (const char* own : {"id", "created_at", "status", "progress"}) {
    form.erase(own);
    text.erase(own);
  }
  EXPECT_EQ(form, text);
  EXPECT_TRUE(eventually([&] { return fs::is_empty(folder_ / "uploads"); }));
}

TEST_F(Serve, EveryErrorHasTheFormThatClientsRead) {
  struct Case {
    std::string line, type, body, status, code, param;
  };
  const std::string create = "POST /v1/videos";
  const std::vector<Case> cases{
      {create, kJson, "{", "400", "invalid_json", ""},
      {create, kJson, "{\"prompt\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}", "400",
       "invalid_json", ""},
      {create, kJson, R"({"prompt": "x", "sed": 1})", "400", "unknown_parameter", "sed"},
      {create, kJson, R"({"prompt": "x", "steps": 0})", "400", "invalid_value", "steps"},
      {create, kJson, R"({"prompt": "refused"})", "400", "invalid_value", "steps"},
      {create, kJson, R"({"shots": [{"prompt": "a"}], "seconds": 3})", "400", "invalid_value", "shots"},
      {create, kJson, R"({"prompt": "x", "model": "n"})", "404", "model_not_found", "model"},
      {create, kJson, "{\"prompt\": \"" + std::string(1 << 20, 'x') + "\"}", "413", "too_large", ""},
      {create, kJson, std::string((3 << 20) + 1, 'x'), "413", "", ""},
      {create, "Content-Type: text/plain\r\n", "x", "415", "unsupported_type", ""},
      {create, "", "", "415", "unsupported_type", ""},
      {create, kForm, "--b\r\n", "400", "", ""},
      {create, "Content-Type: multipart/form-data\r\n", "--b--", "400", "", ""},
      {create, kForm, "--b--", "400", "missing", "prompt"},
      {"POST /v1/videos/none/remix", kJson, R"({"prompt": "x"})", "404", "not_found", "id"},
      {"POST /v1/videos/none/remix", kJson, R"({"prompt": "x", "seed": 1})", "400", "invalid_value", ""},
      {"GET /v1/videos/none", "", "", "404", "not_found", "id"},
      {"GET /v1/videos/%ff%2e%2e%2f", "", "", "404", "not_found", "id"},
      {"GET /v1/videos/none/content", "", "", "404", "not_found", "id"},
      {"GET /v1/videos/none/content?live=1", "", "", "404", "not_found", "id"},
      {"GET /v1/videos/none/content?variant=x", "", "", "400", "invalid_value", "variant"},
      {"GET /v1/videos/none/content?variant=thumbnail", "", "", "404", "not_found", "id"},
      {create, kJson, R"({"prompt": "x", "lora": "a"})", "400", "invalid_value", "lora"},
      {"POST /v1/videos/edits", kJson, R"({"prompt": "x"})", "400", "missing", "video"},
      {"POST /v1/videos/edits", kJson, R"({"prompt": "x", "video": {"id": "none"}})", "404", "not_found",
       "id"},
      {"POST /v1/videos/edits", kJson, R"({"prompt": "x", "video": "x"})", "400", "invalid_value",
       "video"},
      {"POST /v1/videos/extensions", kJson, R"({"prompt": "x"})", "400", "missing", "seconds"},
      {"POST /v1/images/generations", kJson, R"({"prompt": "x", "n": 2})", "400", "invalid_value", "n"},
      {"POST /v1/images/generations", kJson, R"({"prompt": "x", "response_format": "url"})", "400",
       "invalid_value", "response_format"},
      {"POST /v1/images/generations", kForm, "--b--", "415", "unsupported_type", ""},
      {"DELETE /v1/videos/none", "", "", "404", "not_found", "id"},
      {"GET /v1/videos?limit=0", "", "", "400", "invalid_value", "limit"},
      {"GET /v1/videos?limit=x", "", "", "400", "invalid_value", "limit"},
      {"GET /v1/videos?order=up", "", "", "400", "invalid_value", "order"},
      {"PUT /v1/videos", "", "", "405", "", ""},
      {"GET /v1/none", "", "", "404", "", ""}};
  for (const auto& one : cases) {
    const std::string answer = ask(one.line, kToken + one.type, one.body);
    const std::string what = one.line + " " + one.body.substr(0, 100) + "\n" + answer.substr(0, 1000);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + one.status)) << what;
    const json body = body_of(answer);
    ASSERT_TRUE(body.is_object() && body.contains("error")) << what;
    const json& error = body.at("error");
    EXPECT_NE(error.at("message"), "") << what;
    EXPECT_EQ(error.at("type"), "invalid_request_error") << what;
    EXPECT_EQ(error.at("code"), one.code.empty() ? json() : json(one.code)) << what;
    EXPECT_EQ(error.at("param"), one.param.empty() ? json() : json(one.param)) << what;
  }
  EXPECT_EQ(body_of(ask("GET /v1/videos")).at("data"), json::array());
  EXPECT_TRUE(
      eventually([&] { return fs::is_empty(folder_ / "uploads") && fs::is_empty(folder_ / "videos"); }));
}

TEST_F(Serve, ShowsAVideoWhileItIsMade) {
  const std::string id = make(kJson, R"({"prompt": "waits"})").at("id"),
                    content = "GET /v1/videos/" + id + "/content";
  web::Client viewer(port_);
  viewer.send(request(content + "?live=1", kToken));
  EXPECT_THAT(viewer.receive("6\r\na part\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n6\r\na part\r\n")));
  EXPECT_THAT(ask(content), AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("x-should-retry: false"),
                                  HasSubstr("\"not_ready\"")));
  std::ofstream(folder_of(id) / "go") << "x";
  EXPECT_EQ(viewer.receive(), "d\r\n and the rest\r\n0\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  EXPECT_THAT(ask(content),
              AllOf(HasSubstr("Content-Type: video/mp4"), EndsWith("video " + id + " of waits")));
  EXPECT_THAT(ask(content, kToken + "Range: bytes=0-4\r\n"),
              AllOf(StartsWith("HTTP/1.1 206"), EndsWith("\r\n\r\nvideo")));
  EXPECT_THAT(ask("HEAD /v1/videos/" + id + "/content"),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n")));
  EXPECT_EQ(body_of(ask("DELETE /v1/videos/" + id)).at("deleted"), true);
  EXPECT_THAT(ask(content), StartsWith("HTTP/1.1 404"));
}

TEST_F(Serve, GivesPicturesOfAVideo) {
  const std::string id = make(kJson, R"({"prompt": "waits"})").at("id"),
                    content = "GET /v1/videos/" + id + "/content?variant=";
  ASSERT_TRUE(eventually([&] { return ask(content + "thumbnail").starts_with("HTTP/1.1 200"); }));
  EXPECT_THAT(ask(content + "thumbnail"),
              AllOf(HasSubstr("Content-Type: image/webp"), EndsWith("\r\n\r\nthumbnail")));
  EXPECT_THAT(ask(content + "spritesheet"), AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("\"not_ready\"")));
  std::ofstream(folder_of(id) / "go") << "x";
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  EXPECT_THAT(ask(content + "spritesheet"),
              AllOf(HasSubstr("Content-Type: image/jpeg"), EndsWith("\r\n\r\nsheet")));
  EXPECT_THAT(ask(content + "video"), EndsWith("video " + id + " of waits"));
}

TEST_F(Serve, GivesTheDriftOfALongVideo) {
  const std::string id = make(kJson, R"({"prompt": "waits"})").at("id"), variant = "/content?variant=drift";
  EXPECT_TRUE(eventually([&] { return ask("GET /v1/videos/" + id + variant).starts_with("HTTP/1.1 409"); }));
  std::ofstream(folder_of(id) / "go") << "x";
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  const std::string answer = ask("GET /v1/videos/" + id + variant);
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Type: application/json")));
  EXPECT_EQ(body_of(answer), (json{{"mean", {0, 0.5, 1}}}));
  const std::string other = make(kJson, R"({"prompt": "short"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(other) == "completed"; }));
  EXPECT_THAT(ask("GET /v1/videos/" + other + variant),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("from three seconds on")));
}

TEST_F(Serve, EditsAndExtendsAVideo) {
  const auto part = [](const std::string& name, const std::string& value) {
    return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  };
  const auto fields = [&](const std::string& route, const std::string& type, const std::string& body) {
    const std::string answer = ask("POST /v1/videos/" + route, kToken + type, body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    const std::string id = body_of(answer).value("id", "");
    EXPECT_TRUE(eventually([&] { return status(id) == "completed"; }));
    json out = json::parse(bytes_of(folder_of(id) / "fields"));
    out["given"] = bytes_of(folder_of(id) / "given_input_reference");
    return out;
  };
  const std::string file = part("video\"; filename=\"a.mp4", "a video");
  const json edit = fields("edits", kForm, part("prompt", "x") + file + "--b--\r\n");
  EXPECT_EQ(edit.at("given"), "a video");
  EXPECT_EQ(edit.at("strength"), 0.7);
  const json extension =
      fields("extensions", kForm, part("prompt", "x") + file + part("seconds", "3") + "--b--\r\n");
  EXPECT_EQ(extension.at("given"), "a video");
  EXPECT_EQ(extension.at("strength"), 1);
  EXPECT_EQ(extension.at("seconds"), 3);
  const std::string id = make(kJson, R"({"prompt": "first"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(id) == "completed"; }));
  const json of_id =
      fields("edits", kJson, R"({"prompt": "x", "strength": 0.25, "video": {"id": ")" + id + "\"}}");
  EXPECT_EQ(of_id.at("given"), "video " + id + " of first");
  EXPECT_EQ(of_id.at("strength"), 0.25);
}

TEST_F(Serve, MakesAPicture) {
  const std::string answer =
      ask("POST /v1/images/generations", kToken + kJson, R"({"prompt": "a", "n": 1, "size": "32x16"})");
  ASSERT_THAT(answer, StartsWith("HTTP/1.1 200"));
  const json made = body_of(answer);
  EXPECT_EQ(made.at("data"), json::array({{{"b64_json", "cGljdHVyZSBvZiBh"}}}));  // "picture of a"
  EXPECT_GT(made.at("created"), 1'700'000'000);
  EXPECT_THAT(
      ask("POST /v1/images/generations", kToken + kJson, R"({"prompt": "fails"})"),
      AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("no memory is left"), HasSubstr("x-should-retry: false")));
}

TEST_F(Serve, APictureWhoseClientLeavesIsNotMade) {
  const std::string line = "POST /v1/images/generations", body = R"({"prompt": "waits"})";
  const auto videos = [&] { return body_of(ask("GET /v1/videos")).at("data"); };
  const auto fields = [&] { return json::parse(bytes_of(folder_of(videos()[0].at("id")) / "fields")); };
  {
    web::Client leaves(port_);
    leaves.send(request(line, kToken + kJson, body));
    ASSERT_TRUE(eventually([&] { return videos().size() == 1 && videos()[0].at("progress") == 50; }));
    EXPECT_TRUE(fields().value("awaited", false)) << "so that it ends with the server";
  }
  EXPECT_TRUE(eventually([&] { return videos() == json::array(); }));
  EXPECT_TRUE(eventually([&] { return fs::is_empty(folder_ / "videos"); }));
  {
    web::Client comes_back(port_);
    comes_back.send(request(line, kToken + kJson + "Idempotency-Key: k\r\n", body));
    ASSERT_TRUE(eventually([&] { return videos().size() == 1 && videos()[0].at("progress") == 50; }));
    EXPECT_FALSE(fields().value("awaited", false));
  }
  ASSERT_TRUE(eventually([&] { return ask("GET /metrics").find("status=\"499\"} 2") != std::string::npos; }));
  EXPECT_EQ(videos().size(), 1U);
}

TEST_F(Serve, SaysWhichModelIsDown) {
  const fs::path of_model = folder_ / "models/m";
  EXPECT_THAT(ask("GET /health", ""), StartsWith("HTTP/1.1 200"));
  std::ofstream(of_model / "fails_loading") << "x";
  kill(std::stoi(bytes_of(of_model / "pid")), SIGKILL);
  std::string answer;
  EXPECT_TRUE(eventually([&] {
    answer = ask("GET /health", "");
    return answer.find("it ended with exit code 3") != std::string::npos;
  }));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(body_of(answer).at("status"), "model_down");
  EXPECT_EQ(body_of(answer).at("models").at(0).at("id"), "m");
  EXPECT_THAT(ask("GET /metrics"), HasSubstr("kinora_serve_models_up{model=\"m\"} 0\n"));
  fs::remove(of_model / "fails_loading");
  EXPECT_TRUE(eventually([&] { return ask("GET /health", "").starts_with("HTTP/1.1 200"); }));
  EXPECT_THAT(ask("GET /metrics"), HasSubstr("kinora_serve_models_up{model=\"m\"} 1\n"));
}

TEST_F(Serve, CountsItsRequests) {
  ask("GET /v1/videos/none");
  ask("GET /v1/videos/other");
  ask("GET /v1/videos", "");
  ask("GET /nothing/of/mine");
  const std::string id = make(kJson, R"({"prompt": "waits"})").at("id");
  {
    web::Client viewer(port_);
    viewer.send(request("GET /v1/videos/" + id + "/content?live=1", kToken));
    viewer.receive("a part\r\n");
  }
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text = ask("GET /metrics");
    return text.find("kinora_serve_disconnects_total 1\n") != std::string::npos;
  }));
  for (const char* line :
       {"requests_total{route=\"/v1/videos/{id}\",status=\"404\"} 2",
        "requests_total{route=\"/v1/videos/{id}/content\",status=\"200\"} 1",
        "requests_total{route=\"\",status=\"401\"} 1", "requests_total{route=\"\",status=\"404\"} 1",
        "requests_total{route=\"/v1/videos\",status=\"200\"} 1"})
    EXPECT_THAT(text, HasSubstr(std::string("kinora_serve_") + line + "\n"));
  EXPECT_THAT(text, Not(HasSubstr(id)));
}

TEST_F(Serve, CutsTheLiveAnswerOfADeletedVideo) {
  const std::string id = make(kJson, R"({"prompt": "waits"})").at("id");
  web::Client viewer(port_);
  viewer.send(request("GET /v1/videos/" + id + "/content?live=1", kToken));
  EXPECT_THAT(viewer.receive("a part\r\n"), EndsWith("a part\r\n"));
  EXPECT_THAT(ask("DELETE /v1/videos/" + id), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(viewer.receive(), Not(HasSubstr("0\r\n\r\n")));
}

TEST_F(Serve, ListsPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(make(kJson, R"({"prompt": "x"})").at("id"));
  std::vector<std::string> seen;
  std::string after;
  for (bool more = true; more;) {
    const json page = body_of(ask("GET /v1/videos?order=asc&limit=2&after=" + after));
    EXPECT_EQ(page.at("object"), "list");
    for (const auto& one : page.at("data")) seen.push_back(one.at("id"));
    more = page.at("has_more");
    after = page.at("last_id");
    ASSERT_LE(seen.size(), 5U);
  }
  EXPECT_EQ(seen, ids);
  EXPECT_EQ(body_of(ask("GET /v1/videos?limit=1")).at("first_id"), ids.back());
}

}  // namespace serve_test
}  // namespace kinora::serve
