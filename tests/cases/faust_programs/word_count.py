"""Word count: one agent takes posts apart, another one counts the words."""

import re

from towpath import faust

WORD = re.compile(r"\w+")

app = faust.App(
    "word-counts",
    broker="kafka://localhost:9092",
    store="rocksdb://",
    version=1,
    topic_partitions=8,
)


class Post(faust.Record, serializer="json"):
    author: str
    body: str


class WordCount(faust.Record, serializer="json"):
    word: str
    count: int


posts_topic = app.topic("posts", value_type=Post)
counts_topic = app.topic("word-count-updates", value_type=WordCount)
word_counts = app.Table("word_counts", default=int, help="Keep count of words (str to int).")


@app.agent(posts_topic)
async def shuffle_words(posts):
    async for post in posts:
        for word in WORD.findall(post.body.lower()):
            await count_words.send(key=word, value=word)


@app.agent(value_type=str)
async def count_words(words):
    """Count words from post bodies."""
    async for word in words:
        word_counts[word] += 1
        await counts_topic.send(key=word, value=WordCount(word=word, count=word_counts[word]))


if __name__ == "__main__":
    app.main()
