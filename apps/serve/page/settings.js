// What a video was made with, in words.
import { duration, number } from "./words.js";

/** [[name, text], ...] of a video's settings. */
export function settingsOf(video) {
  const shots = video.shots ?? [];
  const out = [["Model", video.model], ["Size", video.size.replace("x", " × ")],
      ["Length", duration(Number(video.seconds))], ["Frames per second", video.fps && number(video.fps)],
      ["LoRA", loraOf(video)], ["Seed", video.seed], ["Steps", video.steps], ["Guidance", video.guidance_scale],
      ["Negative prompt", video.negative_prompt], ["Begins with", video.input_reference && `a ${beginning(video)}`],
      ["Shots", shots.length || undefined]];
  return out.filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => [name, String(value)]);
}

export const titleOf = ({ prompt, shots = [], id }) => prompt || shots.map((shot) => shot.prompt).join(" / ") || id;

/** "picture" or "video": what it begins with. */
export const beginning = (video) => (video.input_reference === "image" ? "picture" : video.input_reference);

/** Name of the LoRA; undefined: none. */
export const loraOf = ({ lora }) => lora?.name ?? lora;

export const isOver = (video) => video.status === "completed" || video.status === "failed";
