"""LangChain's chat model and embeddings against the facade: what it asks, and what it makes of what is refused."""

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

agent = ChatOpenAI(model="agent", max_retries=0)
print(agent.invoke([SystemMessage("Be short."), HumanMessage("one")]).text)
print("".join(part.text for part in agent.stream("two")))
history = [HumanMessage("three"), AIMessage("three it is"), HumanMessage("four")]
print(agent.invoke(history).text, agent.invoke(history).usage_metadata["total_tokens"] > 0)
responses = ChatOpenAI(model="agent", max_retries=0, use_responses_api=True)
print(responses.invoke("five").text)
print("".join(part.text for part in responses.stream("six")))
print([answer.text for answer in agent.batch(["seven", "eight"])])
vectors = OpenAIEmbeddings(model="agent", check_embedding_ctx_length=False).embed_documents(["dog", "cat"])
print(len(vectors), len(vectors[0]) == len(vectors[1]) > 8)
for ask in [
    lambda: agent.with_structured_output({"title": "n", "type": "object", "properties": {"n": {"type": "integer"}}}).invoke("nine"),
    lambda: agent.bind_tools([{"type": "function", "function": {"name": "f", "parameters": {}}}], tool_choice="any").invoke("ten"),
]:
    try:
        print("taken", ask())
    except openai.BadRequestError as error:
        print("refused:", error.body["message"] if error.body else error)
