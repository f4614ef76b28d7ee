// Recognises published chat templates: a template in Jinja is brought into one spelling and compared as a whole.
#include <algorithm>
#include <array>
#include <cctype>

#include "chat.hpp"

namespace kinora::text {
namespace {

// A part of a template: a text that it writes (t), an expression ({) or a statement (%).
struct Piece {
  char kind;
  std::string text;
};
using Pieces = std::vector<Piece>;

// The code from `at` on, without blanks, a.b for a['b'], texts between \1 and \1. `at` goes behind `close`.
std::string read_code(const std::string& jinja, const char* close, size_t& at) {
  std::string out;
  while (at < jinja.size() && jinja.compare(at, 2, close) != 0) {
    const char c = jinja[at++];
    if (c != '\'' && c != '"') {
      if (!std::isspace(static_cast<unsigned char>(c))) out += c;
      continue;
    }
    std::string text;
    for (; at < jinja.size() && jinja[at] != c; ++at) {
      const bool escapes = jinja[at] == '\\' && at + 1 < jinja.size();
      const char next = escapes ? jinja[at + 1] : c;
      if (escapes) ++at;
      text += !escapes      ? std::string(1, jinja[at])
              : next == 'n' ? "\n"
                            : std::string(next == c ? "" : "\\") + next;
    }
    ++at;
    const bool is_key = out.ends_with('[') && at < jinja.size() && jinja[at] == ']';
    if (is_key) {
      out.back() = '.';
      ++at;
    }
    out += is_key ? text : '\1' + text + '\1';
  }
  at += 2;
  return out;
}

// 'a' + b + 'c' is the text a, the expression b and the text c.
void add_terms(const std::string& code, Pieces& out) {
  std::string term;
  bool quoted = false;
  for (const char c : code + "+") {
    quoted ^= c == '\1';
    if (c != '+' || quoted) {
      term += c;
      continue;
    }
    const bool text = term.starts_with('\1') && term.find('\1', 1) == term.size() - 1;
    out.push_back(text ? Piece{'t', term.substr(1, term.size() - 2)} : Piece{'{', term});
    term.clear();
  }
}

// As transformers reads a template: with trim_blocks and lstrip_blocks.
Pieces pieces_of(std::string jinja) {
  if (jinja.ends_with('\n')) jinja.pop_back();
  constexpr const char* kBlanks = " \t\r\n";
  Pieces out;
  bool strips = false, line_begins = true, after_statement = false;
  for (size_t at = 0; at < jinja.size();) {
    const size_t open = std::min(jinja.find("{{", at), jinja.find("{%", at));
    std::string text = jinja.substr(at, open - at);
    if (strips) text.erase(0, text.find_first_not_of(kBlanks));
    line_begins = at == 0 || (after_statement && text.starts_with('\n'));
    if (at != 0 && line_begins) text.erase(0, 1);
    const bool ends = open == jinja.npos, is_statement = !ends && jinja[open + 1] == '%';
    const bool strips_before = !ends && jinja.compare(open + 2, 1, "-") == 0;
    if (strips_before) text.erase(text.find_last_not_of(kBlanks) + 1);
    const size_t line = text.find_last_not_of(" \t") + 1;
    if (is_statement && (line == 0 ? line_begins : text[line - 1] == '\n')) text.erase(line);
    out.push_back({'t', text});
    if (ends) break;
    at = open + (strips_before ? 3 : 2);
    std::string code = read_code(jinja, is_statement ? "%}" : "}}", at);
    strips = code.ends_with('-');
    if (strips) code.pop_back();
    after_statement = is_statement;
    if (is_statement) out.push_back({'%', replaced(code, "\1", "'")});
    if (!is_statement) add_terms(code, out);
  }
  return out;
}

// Conditions that hold for no chat here, and statements that only they need.
constexpr std::array kNever{"iftools", "ifadd_vision_id", "ifnotadd_generation_promptisdefined"};
constexpr std::array kSilent{"setimage_count=namespace(value=0)", "setvideo_count=namespace(value=0)",
                             "setimage_count.value=image_count.value+1",
                             "setvideo_count.value=video_count.value+1"};
// A condition that holds for each turn, but not for a system turn at the begin.
constexpr const char* kEachTurn =
    "if(message.role=='user')or(message.role=='system'andnotloop.first)or(message.role=='assistant'andnot"
    "message.tool_calls)";

std::string branch(const Pieces& all, size_t& at);

// From an `if` to its `endif`, without the branches that no chat takes.
std::string choice(const Pieces& all, size_t& at) {
  const std::string condition = all[at].text;
  const bool never = std::find(kNever.begin(), kNever.end(), condition) != kNever.end();
  std::string out;
  for (bool first = true; at < all.size() && all[at].text != "endif"; first = false) {
    const std::string head = all[at++].text, body = branch(all, at);
    if (never ? first : !first && condition == kEachTurn) continue;
    out += never && head == "else" ? body : "{%" + head + "%}" + body;
  }
  return never ? out : out + "{%endif%}";
}

// Up to the `elif`, `else` or `endif` of the branch, or to the end.
std::string branch(const Pieces& all, size_t& at) {
  std::string out;
  for (; at < all.size(); ++at) {
    const auto& [kind, text] = all[at];
    if (kind != '%') {
      out += kind == 't' ? text : "{{" + text + "}}";
    } else if (text.starts_with("if")) {
      out += choice(all, at);
    } else if (text.starts_with("el") || text == "endif") {
      break;
    } else if (std::find(kSilent.begin(), kSilent.end(), text) == kSilent.end()) {
      out += "{%" + text + "%}";
    }
  }
  return out;
}

// All that a template writes, in one spelling; empty if its statements do not match.
std::string normal_form(const std::string& jinja) {
  const Pieces all = pieces_of(jinja);
  size_t at = 0;
  const std::string out = branch(all, at);
  return at < all.size() ? "" : out;
}

// Whether a normal form is that of ChatML with this system turn for chats that begin with another.
bool is_chatml(std::string form, const std::string& system) {
  const std::string loop = "{%formessageinmessages%}", end = "<|im_end|>\n",
                    content = "{{message.content}}" + end;
  form = replaced(form, "{%formessageinmessagesifmessage.contentisnotnone%}", loop);
  // Qwen2-VL
  form = replaced(
      form,
      "{%ifmessage.contentisstring%}" + content +
          "{%else%}{%forcontentinmessage.content%}"
          "{%ifcontent.type=='image'or'image'incontentor'image_url'incontent%}"
          "<|vision_start|><|image_pad|><|vision_end|>{%elifcontent.type=='video'or'video'incontent%}"
          "<|vision_start|><|video_pad|><|vision_end|>{%elif'text'incontent%}{{content.text}}{%endif%}"
          "{%endfor%}" +
          end + "{%endif%}",
      content);
  const std::string turn = "<|im_start|>{{message.role}}\n" + content;
  const std::string prompt = "{%endfor%}{%ifadd_generation_prompt%}<|im_start|>assistant\n{%endif%}";
  const std::string rest = turn + prompt;
  if (system.empty()) return form == loop + rest;
  const std::string otherwise = "role!='system'%}" + system + "{%endif%}";
  const std::array known{"{%ifmessages[0]." + otherwise + loop + rest,  // VILA
                         loop + "{%ifloop.firstandmessages[0]." + otherwise + rest,
                         loop + "{%ifloop.firstandmessage." + otherwise + rest,
                         // Qwen2.5
                         "{%ifmessages[0].role=='system'%}<|im_start|>system\n{{messages[0].content}}" + end +
                             "{%else%}" + system + "{%endif%}" + loop + "{%" + kEachTurn + "%}" + turn +
                             "{%endif%}" + prompt};
  return std::find(known.begin(), known.end(), form) != known.end();
}

bool is_llama3(const std::string& form) {
  return form ==
         "{%setloop_messages=messages%}{%formessageinloop_messages%}{%setcontent='<|start_header_id|>'+"
         "message.role+"
         "'<|end_header_id|>\n\n'+message.content|trim+'<|eot_id|>'%}{%ifloop.index0==0%}"
         "{%setcontent=bos_token+content%}{%endif%}{{content}}{%endfor%}"
         "{%ifadd_generation_prompt%}<|start_header_id|>assistant<|end_header_id|>\n\n{%endif%}";
}

}  // namespace

ChatLayout recognise_layout(const std::string& jinja, const std::string& where) {
  const std::string form = normal_form(jinja), head = "<|im_start|>system\n", tail = "<|im_end|>\n";
  if (is_chatml(form, "")) return find_layout("chatml");
  for (size_t at = 0; (at = form.find(head, at)) != form.npos;) {
    at += head.size();
    const std::string said = form.substr(at, form.find(tail, at) - at);
    if (said.find_first_of("{\\") != said.npos || !is_chatml(form, head + said + tail)) continue;
    ChatLayout out = find_layout("chatml");
    out.default_system = said;
    return out;
  }
  if (is_llama3(form)) return find_layout("llama3");
  std::string known;
  for (const auto& name : layout_names()) known += (known.empty() ? "" : ", ") + name;
  throw Error(KINORA_ERROR_UNSUPPORTED, where +
                                            ": this chat template is not known, so its prompts may differ "
                                            "from those of every known one; if one "
                                            "of them is that which the model was trained with, set it by "
                                            "hand, such as template = \"chatml\": " +
                                            known);
}

}  // namespace kinora::text
