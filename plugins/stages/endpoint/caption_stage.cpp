// stage/caption.endpoint: captions clips with a vision model behind an OpenAI-compatible server.
#include "answers.hpp"
#include "asking_stage.hpp"
#include "kinora/plugin.hpp"
#include "pictures.hpp"
#include "prompt.hpp"

namespace kinora::endpoint {

class CaptionEndpoint final : public AskingStage {
 public:
  struct Options : ChatOptions, PictureOptions {
    // Windows, sampling rate and answer length as in Cosmos-Curate.
    Options() { max_tokens = 8192; }
    std::string prompt =
        "These are frames of one video in their order. Describe what the video shows: who and what is there, "
        "what "
        "they do and how it changes, the place, the light, and how the camera moves. Write one paragraph and "
        "state "
        "only what can be seen.";
    std::string picture_prompt =
        "Describe what this picture shows: who and what is there, what they do, the place, the light, and "
        "the "
        "point of view. Write one paragraph and state only what can be seen.";
    int64_t window = 256, remainder = 128;
    double fps = 2;
    std::string join = " ", response_format;
    bool replace_user = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("caption.endpoint")
        .help(
            "Captions clips with a vision model behind an OpenAI-compatible server: frames as JPEG, "
            "answer as field txt");
    d.input("frames", "[T, H, W, 3]", "uint8",
            "sampled RGB frames, upright; fact frames_at has their seconds");
    d.option("prompt", &Options::prompt).help("instruction sent with the frames");
    d.option("picture_prompt", &Options::picture_prompt)
        .help("instruction sent with a picture that is not a frame of a video");
    d.option("window", &Options::window)
        .range(4, 1 << 20)
        .unit("frames")
        .help("number of the video's frames per caption request");
    d.option("remainder", &Options::remainder)
        .range(1, 1 << 20)
        .unit("frames")
        .help("smallest last window; a shorter one is joined to the window before");
    d.option("fps", &Options::fps)
        .range(0, 1000)
        .help("frames sent per second of video, if fact frames_at has their times; 0: all frames");
    d.option("join", &Options::join).help("separator between the captions of several windows");
    d.option("response_format", &Options::response_format)
        .help("JSON object that requests a form of the answer; empty: none");
    d.option("replace_user", &Options::replace_user).help("replace the user's own captions as well");
    describe_pictures(d);
    describe_chat(d);
  }
  explicit CaptionEndpoint(const Options& o)
      : AskingStage("caption.endpoint", o, "/chat/completions"),
        options_(o),
        format_(Json::parse(o.response_format, nullptr, false)) {
    if (!o.response_format.empty() && !format_.is_object())
      throw Error(KINORA_ERROR_INVALID,
                  "caption.endpoint: response_format is not a JSON object: " + o.response_format);
  }

 private:
  std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) override {
    if (captioned_by_user(in, facts) && !options_.replace_user) return std::nullopt;
    const Pictures frames = frames_of(in);
    const Timeline timeline = timeline_of(facts, frames.count);
    const bool picture = is_picture(in);
    const auto parts = picture ? std::vector<Window>{{0, 1}}
                               : windows(timeline.video_frames(), options_.window, options_.remainder);
    if (parts.empty())
      throw Error(KINORA_ERROR_DATA, "a video of " + std::to_string(timeline.video_frames()) +
                                         " frames is too short for a caption, which needs at least 4");
    const std::string key(in.key());
    const std::string& prompt = picture ? options_.picture_prompt : options_.prompt;
    const auto answers = ask_all(
        parts.size(), [&](size_t i) { return question(key, prompt, frames, timeline, parts, i); }, facts,
        run);
    write(in, facts, prompt, timeline, parts, answers);
    return std::nullopt;
  }

  Question question(const std::string& key, const std::string& prompt, const Pictures& frames,
                    const Timeline& timeline, const std::vector<Window>& parts, size_t i) const {
    const auto picked = timeline.pick(parts[i], timeline.fps > 0 ? options_.fps : 0, options_.max_frames);
    const std::string part = parts.size() == 1 ? ""
                                               : ", frames " + std::to_string(parts[i].begin) + " to " +
                                                     std::to_string(parts[i].end - 1);
    if (picked.empty())
      throw Error(KINORA_ERROR_DATA,
                  key + part +
                      ": no sampled frame is in this window; sample more densely (sample_fps of "
                      "video.clips or clip.transcode)");
    return {key, [this, &prompt, &frames, picked] { return body(prompt, frames, picked); },
            guess_tokens(options_, prompt, picked.size()), part};
  }

  std::string body(const std::string& prompt, const Pictures& frames,
                   const std::vector<size_t>& picked) const {
    std::vector<std::string> urls;
    for (const size_t i : picked)
      urls.push_back(data_url(frames, i, options_.max_side, static_cast<int>(options_.quality)));
    Json request = chat_request(options_, prompt, urls, options_.detail);
    if (format_.is_object()) request["response_format"] = format_;
    return client().body(std::move(request));
  }

  void write(Sample& in, Json& facts, const std::string& prompt, const Timeline& timeline,
             const std::vector<Window>& parts, const std::vector<Json>& answers) const {
    std::string text;
    Json told = Json::array();
    for (size_t i = 0; i < parts.size(); ++i) {
      const Chat chat = chat_of(answers[i]);
      if (chat.cut && options_.cut == "fail")
        throw Error(KINORA_ERROR_DATA,
                    "the caption ended at max_tokens; raise max_tokens, or accept it with cut = \"keep\"");
      text += (text.empty() ? "" : options_.join) + chat.text;
      Json window{{"first_frame", parts[i].begin}, {"end_frame", parts[i].end}, {"text", chat.text}};
      if (timeline.fps > 0) {
        window["start_s"] = static_cast<double>(parts[i].begin) / timeline.fps;
        window["end_s"] = static_cast<double>(parts[i].end) / timeline.fps;
      }
      if (chat.cut) window["cut"] = true;
      told.push_back(std::move(window));
    }
    in.set("txt", text);
    facts["caption"] = {{"by", name()}, {"model", options_.model}, {"prompt", prompt}, {"windows", told}};
  }

  Options options_;
  Json format_;
};

}  // namespace kinora::endpoint

using kinora::endpoint::CaptionEndpoint;
KINORA_COMPONENT(CaptionEndpoint)
