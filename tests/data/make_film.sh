#!/usr/bin/env bash
# Makes film.mp4, film.json and film_excerpt.webm. The film has twelve shots whose cuts are known exactly: each shot is
# a counted run of frames from inside one shot of its source, and the shots are joined with `concat`.
#
#   bash tests/data/make_film.sh [BBB.mp4] [OUT_DIR]
#
# BBB.mp4 is Big Buck Bunny, 1280x720, 24 fps, 14,315 frames; without it, it is taken from the source distribution of
# the Python package moviepy 2.2.1. The encoders run on one thread with bitexact flags, so FFmpeg 5.1 with x264 164
# (Debian 12) writes the same bytes again. Licences and origins: LICENSES.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bbb=${1:-}
out=${2:-$here}
city=$here/city_cc0.mp4 # 25 fps; its frames are played at 24 fps, each once
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z $bbb ]]; then
  media=moviepy-2.2.1/docs/_static/medias/getting_started/moviepy_10_minutes/moviepy_10_minutes.zip
  python3 -m pip download --quiet --retries 5 --no-deps --no-binary :all: --dest "$work" moviepy==2.2.1
  tar -xzf "$work/moviepy-2.2.1.tar.gz" -C "$work" "$media"
  python3 -m zipfile -e "$work/$media" "$work"
  bbb=$(find "$work" -name bbb.mp4 -print -quit)
fi

# source, first frame in the source, number of frames; every run lies inside one shot of its source.
shots=(
  "bbb 1160 84"  # the rabbit leaves its burrow and stretches
  "bbb 1544 96"  # it walks up to the daisies
  "city 8 72"    # green towers at night
  "bbb 2500 80"  # the rabbit and a butterfly, pink sky
  "bbb 1822 72"  # seen from above among butterflies
  "bbb 2838 56"  # three rodents
  "bbb 3060 84"  # under the tree
  "bbb 4470 66"  # the squirrel and the pink butterfly
  "city 122 64"  # white towers at night
  "bbb 5862 76"  # in the dark wood
  "bbb 6842 80"  # the stone in the meadow
  "bbb 8028 50"  # the red squirrel's face
)

# One filter graph: trim each run by frame numbers, number its frames from 0 at 24 fps, join.
graph="" chain="" entries="" cuts="" frames=0
for i in "${!shots[@]}"; do
  read -r source first count <<<"${shots[i]}"
  [[ $source == bbb ]] && input=0 || input=1
  graph+="[$input:v]trim=start_frame=$first:end_frame=$((first + count)),setpts=N/(24*TB),"
  graph+="scale=640:360:flags=lanczos+accurate_rnd+full_chroma_int,setsar=1,fps=24,format=yuv420p[v$i];"
  chain+="[v$i]"
  ((frames == 0)) || cuts+="${cuts:+, }$frames"
  entries+="${entries:+,$'\n'}    {\"first\": $frames, \"frames\": $count, \"source\": \"$source\", \"source_first\": $first}"
  frames=$((frames + count))
done
seconds=$(awk "BEGIN { printf \"%.6f\", $frames / 24 }")
# The sound is one unbroken stretch of Big Buck Bunny's own, from 0:56.
graph+="${chain}concat=n=${#shots[@]}:v=1:a=0[v];"
graph+="[0:a]atrim=start=56:duration=$seconds,asetpts=PTS-STARTPTS,aresample=44100,aformat=channel_layouts=mono[a]"

ffmpeg -hide_banner -loglevel error -y -threads 1 -i "$bbb" -threads 1 -i "$city" -filter_complex_threads 1 \
  -filter_complex "$graph" -map '[v]' -map '[a]' -map_metadata -1 -fflags +bitexact \
  -c:v libx264 -preset veryslow -crf 29 -g 48 -threads 1 -flags:v +bitexact \
  -c:a aac -b:a 48k -flags:a +bitexact -movflags +faststart "$work/film.mp4"

# A WebM to test with: VP8 and Vorbis, one cut, a container that states no frame count.
ffmpeg -hide_banner -loglevel error -y -threads 1 -i "$work/film.mp4" -t 7 -vf scale=320:180 -map_metadata -1 \
  -fflags +bitexact -c:v libvpx -threads 1 -b:v 220k -g 48 -flags:v +bitexact -c:a libvorbis -q:a 0 -flags:a +bitexact \
  "$work/film_excerpt.webm"

cat >"$work/film.json" <<JSON
{
  "fps": 24,
  "frames": $frames,
  "cuts": [$cuts],
  "shots": [
$entries
  ]
}
JSON
mkdir -p "$out"
mv "$work/film.mp4" "$work/film.json" "$work/film_excerpt.webm" "$out/"
echo "$out/film.mp4: $frames frames, ${#shots[@]} shots, cuts at $cuts"
