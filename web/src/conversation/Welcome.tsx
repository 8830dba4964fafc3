/** The empty state before the first message. */
export function Welcome() {
  return (
    <div className="message-list welcome">
      <div>
        <img src="./icon.svg" alt="" width="56" height="56" />
        <h2>What shall we work on?</h2>
        <p>The timeline records every thought, tool call, file and source. Open the inspector to see what the model received in each round.</p>
      </div>
    </div>
  );
}
